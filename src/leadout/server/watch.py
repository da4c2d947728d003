"""Around every request: a record, an id, a log line, and an answer even where the server is at fault."""

from __future__ import annotations

import logging
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leadout.server.metrics import Metrics
from leadout.server.record import Record
from leadout.server.refusal import RefusedError
from leadout.server.sse import ClientGoneError

LOG = logging.getLogger("leadout.server")
CLIENT_GONE = 499
"""The status that logs and metrics show where nobody waited for the answer."""


class Watch:
    """Follows requests from their first byte to their last.

    Parameters
    ----------
    app : ASGIApp
    metrics : Metrics
    quiet : collection of str
        Paths that are asked so often that they are not logged.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, quiet: Collection[str] = ()) -> None:
        self._app, self._metrics, self._quiet = app, metrics, quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and tell what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = scope["leadout.record"] = Record(self._metrics)
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", record.id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except ClientGoneError:
            status = CLIENT_GONE
        except TimeoutError:  # the client did not read what it was sent
            status = CLIENT_GONE
        except Exception:
            LOG.exception("request failed", extra={"fields": {"id": record.id}})
            if status:
                raise  # half an answer is out; closing the connection says that it is not whole
            status = 500
            await RefusedError(500, f"something failed here; the log of {record.id} tells more").response()(
                scope, receive, sent
            )
        finally:
            route = scope.get("route")
            record.route = getattr(route, "path", "") or "other"
            told = record.end(status or CLIENT_GONE)
            if scope["path"] not in self._quiet:
                LOG.info("request", extra={"fields": {"method": scope["method"], **told}})
