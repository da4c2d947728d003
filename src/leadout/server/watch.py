"""Around every request: a record, an id, a log line, and an answer even where the server is at fault."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import ExitStack

from opentelemetry import trace
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
    shows_text : bool
        Let log lines show what was asked and said.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, quiet: Collection[str] = (), *, shows_text: bool = False
    ) -> None:
        self._app, self._metrics, self._quiet, self._shows_text = app, metrics, quiet, shows_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and tell what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = scope["leadout.record"] = Record(self._metrics, shows_text=self._shows_text)
        leases = scope["leadout.leases"] = ExitStack()  # what the request holds until it is over
        span, status = trace.get_current_span(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", record.id.encode())]
            elif not message.get("more_body", False):
                record.route = _route(scope)
                span.set_attributes(_attributes(record.told(status)))  # the span ends with this message
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except ClientGoneError:
            scope["leadout.gone"] = True
        except Exception:
            LOG.exception("request failed", extra={"fields": {"id": record.id}})
            if status:
                raise  # half an answer is out; closing the connection says that it is not whole
            message = f"something failed here; the log of {record.id} tells more"
            await RefusedError(500, message).response(scope["path"])(scope, receive, sent)
        finally:
            leases.close()
            record.route = _route(scope)
            told = record.end(CLIENT_GONE if scope.get("leadout.gone") else status)
            if scope["path"] not in self._quiet:
                LOG.info("request", extra={"fields": {"method": scope["method"], **told}})


def _route(scope: Scope) -> str:
    """The route that took the request, as it is written in the description; unknown ones are one."""
    return getattr(scope.get("route"), "path", "") or "other"


def _attributes(told: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """What a span tells of a request: numbers and names, never its text."""
    return {
        f"leadout.{name}": value
        for name, value in told.items()
        if isinstance(value, str | int | float | bool)
    }
