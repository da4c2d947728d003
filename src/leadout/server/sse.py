"""Server-sent events, and giving up when nobody listens any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leadout.errors import LeadoutError
from leadout.server.json_response import json_bytes
from leadout.server.refusal import RefusedError, refusal_of

T = TypeVar("T")

DONE = b"data: [DONE]\n\n"


class ClientGoneError(LeadoutError):
    """The client closed its connection before the answer was complete."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T], deadline: float | None = None) -> T:
    """Do `work`, unless the client leaves first or the time is over; then it is cancelled, and has ended.

    Parameters
    ----------
    receive : Receive
        Of a request whose body has been read.
    work : coroutine
    deadline : float or None
        Time of the event loop's clock.

    Raises
    ------
    ClientGoneError
    RefusedError
        504 after the deadline.
    """
    limit = asyncio.timeout_at(deadline)

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        limit.reschedule(asyncio.get_running_loop().time())

    listening = asyncio.create_task(listen())
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if listening.done():
            raise ClientGoneError("the client closed the connection") from error
        if not limit.expired():
            raise  # of something that the work itself waited for
        raise RefusedError(504, "the request took longer than this server allows", code="timeout") from error
    finally:
        listening.cancel()


async def data_lines(chunks: AsyncIterator[Mapping[str, object]]) -> AsyncGenerator[bytes, None]:
    """Chunks as ``data:`` lines, ended by ``[DONE]``; an error on the way is told and ends them."""
    try:
        async for chunk in chunks:
            yield b"data: " + json_bytes(chunk) + b"\n\n"
    except LeadoutError as error:
        yield b"data: " + json_bytes(refusal_of(error).to_json()) + b"\n\n"
    yield DONE


async def event_lines(events: AsyncIterator[Mapping[str, object]]) -> AsyncGenerator[bytes, None]:
    """Events with their names, as ``/v1/responses`` streams them."""
    async for event in events:
        yield b"event: " + str(event["type"]).encode() + b"\ndata: " + json_bytes(event) + b"\n\n"


class EventStream(Response):
    """A response that is sent as it comes.

    Parameters
    ----------
    lines : async generator of bytes
    source : async generator
        What `lines` are made from; both are closed when the client leaves or does not read.
    send_timeout_s : float
        How long the client may leave a piece unread.
    media_type : str
        What `lines` are.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        lines: AsyncGenerator[bytes, None],
        source: AsyncGenerator[Any, None],
        send_timeout_s: float,
        media_type: str = "text/event-stream",
    ) -> None:
        super().__init__(
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, media_type=media_type
        )
        del self.headers["content-length"]
        self._lines, self._source, self._send_timeout_s = lines, source, send_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; where nobody takes it, note that in the scope as ``leadout.gone``."""
        try:
            await while_connected(receive, self._pump(send))
        except (ClientGoneError, TimeoutError):
            scope["leadout.gone"] = True

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._source), aclosing(self._lines) as lines:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for line in lines:
                async with asyncio.timeout(self._send_timeout_s):
                    await send({"type": "http.response.body", "body": line, "more_body": True})
                await asyncio.sleep(0)  # others have their turn, and a connection that was closed is noticed
            await send({"type": "http.response.body", "body": b"", "more_body": False})
