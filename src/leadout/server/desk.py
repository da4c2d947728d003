"""What every route needs: the model that was asked, who asks, and the ways to answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from leadout.errors import ClosingError
from leadout.server.json_response import JsonResponse
from leadout.server.keep_alive import keep_alive_s
from leadout.server.options import ServerOptions
from leadout.server.record import Record
from leadout.server.registry import Registry, Served
from leadout.server.reply import Job, Piece, pieces
from leadout.server.sse import EventStream, data_lines, while_connected

Lines = Callable[[AsyncIterator[Mapping[str, object]]], AsyncGenerator[bytes, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Answers requests.

    Parameters
    ----------
    registry : Registry
    options : ServerOptions
    """

    registry: Registry
    options: ServerOptions

    @property
    def documented(self) -> dict[str, Any]:
        """What the description of every generating route says of its answers."""
        return self.documented_for("text/event-stream")

    def documented_for(self, streamed_type: str) -> dict[str, Any]:
        """The same for a route whose streams are of that media type."""
        told = {
            404: "There is no such model.",
            429: "Too many requests wait; Retry-After says when to come back.",
            500: "The model failed, or cannot be loaded.",
            503: "The server is closing, or lacks memory for this model.",
            504: "The request took longer than this server allows.",
        }
        streamed: dict[str, object] = {"application/json": {}, streamed_type: {}}
        responses: dict[int | str, dict[str, Any]] = {
            status: {"description": text} for status, text in told.items()
        }
        responses[200] = {"description": "The answer, whole or as it comes.", "content": streamed}
        return {"responses": responses, "response_class": JsonResponse}

    async def served(self, request: Request, name: str, keep_alive: float | str | None = None) -> Served:
        """The model of that name, loaded, noted in the request's record and kept until the request is over.

        Raises
        ------
        RefusedError
            If there is none, or it cannot be loaded.
        ClosingError
            If the server is closing.
        """
        if not self.registry.is_ready:
            raise ClosingError(1.0)
        seconds = None if keep_alive is None else keep_alive_s(keep_alive)
        leasing = self.registry.lease(name, request.scope["leadout.leases"], seconds)
        served = await while_connected(request.receive, leasing, self.deadline())
        record = record_of(request)
        record.model, record.load_s = served.name, record.seconds
        return served

    def client(self, request: Request) -> str:
        """Whose request it is: what is remembered of one is never used for another."""
        client: str = request.scope.get("leadout.client", "")
        return client

    def deadline(self) -> float:
        """When a request that begins now is given up, by the event loop's clock."""
        return asyncio.get_running_loop().time() + self.options.request_timeout_s

    def pieces(self, request: Request, job: Job) -> AsyncGenerator[Piece, None]:
        """The pieces of a job's answers, followed by the request's record."""
        return pieces(job, record_of(request))

    async def whole(
        self, request: Request, answer: Coroutine[Any, Any, Mapping[str, object]], job: Job
    ) -> Response:
        """The answer in one piece; cancelled when the client leaves."""
        return JsonResponse(await while_connected(request.receive, answer, job.deadline))

    async def stream(
        self,
        request: Request,
        source: AsyncGenerator[Piece, None],
        told: Callable[[AsyncIterator[Piece]], AsyncIterator[Mapping[str, object]]],
        job: Job,
        lines: Lines = data_lines,
        *,
        media_type: str = "text/event-stream",
    ) -> Response:
        """The answer as it comes; what is wrong with the request is told before, with its own status."""
        record_of(request).is_stream = True

        async def first() -> Piece:
            return await anext(source)

        piece = await while_connected(request.receive, first(), job.deadline)
        return EventStream(
            lines(told(_after(piece, source))), source, self.options.send_timeout_s, media_type
        )


async def _after(piece: Piece, source: AsyncGenerator[Piece, None]) -> AsyncGenerator[Piece, None]:
    """The first piece and the rest."""
    yield piece
    async for each in source:
        yield each


def record_of(request: Request) -> Record:
    """The record that the request came with."""
    record: Record = request.scope["leadout.record"]
    return record
