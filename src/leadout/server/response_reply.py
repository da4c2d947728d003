"""Answers as responses: a fold over pieces that tells every step, and comes to one object."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from leadout.engine.events import Token
from leadout.errors import LeadoutError
from leadout.server.deltas import CallDelta, Delta, ReasoningDelta, TextDelta
from leadout.server.logprobs import chat_logprobs
from leadout.server.output_items import CallOutput, Item, Step, TextOutput
from leadout.server.refusal import refusal_of
from leadout.server.reply import End, Piece, receipt_in
from leadout.server.usage import response_usage

Event = Mapping[str, object]


@dataclass(slots=True, kw_only=True)
class ResponseReply:
    """How a response is told.

    Parameters
    ----------
    asked : mapping
        What the request said of the response, told again in it.
    has_logprobs : bool
    id, created : str, int
        Of the response.
    """

    asked: Mapping[str, object]
    has_logprobs: bool = False
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    _done: list[Item] = field(default_factory=list)
    _open: Item | None = None
    _untold: list[Token] = field(default_factory=list)  # whose log probabilities have not been told

    async def whole(self, pieces: AsyncIterator[Piece]) -> Event:
        """The response as one object."""
        response: Event = {}
        async for kind, event in self._steps(pieces):
            if kind in ("response.completed", "response.incomplete"):
                response = event["response"]  # type: ignore[assignment]
        return response

    async def events(self, pieces: AsyncIterator[Piece]) -> AsyncGenerator[Event, None]:
        """Every step, numbered; an error on the way is told and ends them."""
        n = 0
        try:
            async for kind, event in self._steps(pieces):
                yield {"type": kind, "sequence_number": n, **event}
                n += 1
        except LeadoutError as error:
            told = {"code": "server_error", "message": refusal_of(error).message}
            failed = self._response("failed", error=told)
            yield {"type": "response.failed", "sequence_number": n, "response": failed}

    async def _steps(self, pieces: AsyncIterator[Piece]) -> AsyncGenerator[Step, None]:
        async for piece in pieces:
            if piece.token is None and piece.end is None:
                yield "response.created", {"response": self._response("in_progress")}
                yield "response.in_progress", {"response": self._response("in_progress")}
            if self.has_logprobs and piece.token is not None:
                self._untold.append(piece.token)
            for delta in piece.deltas:
                for step in self._take(delta):
                    yield step
            if piece.end is not None:
                is_cut = piece.end.reason == "length"
                for step in self._closed("incomplete" if is_cut else "completed"):
                    yield step
                status = "incomplete" if is_cut else "completed"
                yield f"response.{status}", {"response": self._response(status, end=piece.end)}

    def _take(self, delta: Delta) -> Iterator[Step]:
        if isinstance(delta, CallDelta):
            yield from self._next(CallOutput(delta.id, delta.name))
            return
        if isinstance(delta, TextDelta | ReasoningDelta):
            kind: Literal["message", "reasoning"] = "message" if isinstance(delta, TextDelta) else "reasoning"
            if self._open is None or self._open.kind != kind:
                yield from self._next(TextOutput(kind))
        if self._open is not None:
            logprobs = chat_logprobs(self._untold) if isinstance(delta, TextDelta) else []
            self._untold.clear()
            yield from self._open.grown(len(self._done), delta.text, logprobs)

    def _next(self, item: Item) -> Iterator[Step]:
        yield from self._closed("completed")
        self._open = item
        yield from item.opened(len(self._done))

    def _closed(self, status: str) -> Iterator[Step]:
        if self._open is not None:
            yield from self._open.closed(len(self._done), status)
            self._done.append(self._open)
            self._open = None

    def _response(
        self, status: str, *, end: End | None = None, error: Event | None = None
    ) -> dict[str, object]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": error,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": [item.to_json() for item in self._done],
            "usage": None if end is None else response_usage(end),
            **({} if end is None else receipt_in([end])),
            **self.asked,
        }
