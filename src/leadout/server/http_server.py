"""uvicorn, which ends in two steps and does not wait for requests that never come.

A first signal closes the models while the server still listens: what runs may end, what is new is told so.
Only then are connections closed. A second signal ends what still runs after its present pass.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Awaitable, Callable
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

Drain = Callable[[float], Awaitable[None]]
"""Takes no more requests, and ends what still runs after so many seconds; may be called again with fewer."""

_LOG = logging.getLogger("leadout.server")
_TICK_S = 0.05
_LAST_S = 1.0  # for what was said last to reach its reader


class HttpServer(uvicorn.Server):
    """Serves an application until a signal.

    Parameters
    ----------
    app : ASGIApp
    drain : callable
    header_timeout_s : float
        How long a client may take to send the head of a request.
    grace_s : float
        How long running requests may go on after the first signal.
    """

    def __init__(self, app: ASGIApp, drain: Drain, *, header_timeout_s: float, grace_s: float) -> None:
        class Protocol(PromptProtocol):
            timeout_s = header_timeout_s

        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
            )
        )
        self._drain, self._grace_s = drain, grace_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Take a signal; the second one, of whatever kind, does not wait."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then close."""
        if n_running := len(self.server_state.tasks):
            _LOG.info(
                "stopping: %d requests running, up to %g s; Ctrl-C again ends at once",
                n_running,
                self._grace_s,
            )
        else:
            _LOG.info("stopping: no requests running")
        loop = asyncio.get_running_loop()
        end = loop.time() + self._grace_s
        draining = asyncio.ensure_future(self._drain(self._grace_s))
        while not draining.done() and not self.force_exit:
            await asyncio.wait({draining}, timeout=_TICK_S)
        if not draining.done():
            await self._drain(0.0)
        await draining
        self.force_exit = False  # nothing runs any more, and what is left to do is done in order
        self.config.timeout_graceful_shutdown = math.ceil(max(_LAST_S, end - loop.time()))
        await super().shutdown(sockets)


class PromptProtocol(H11Protocol):
    """HTTP/1.1, for clients that send the head of their request in time.

    Attributes
    ----------
    timeout_s : float
    """

    timeout_s: float
    _waiting: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next one."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        if self._waiting is not None:
            self._waiting.cancel()

    def _wait(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self.loop.call_later(self.timeout_s, self._give_up)

    def _give_up(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
