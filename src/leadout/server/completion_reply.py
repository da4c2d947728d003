"""Answers as text completions: whole, and in chunks. The answers to all prompts count through."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from leadout.engine.events import Token
from leadout.server.deltas import TextDelta
from leadout.server.logprobs import text_logprobs
from leadout.server.reply import Answers, End, Piece, receipt_in
from leadout.server.usage import completion_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionReply:
    """How a text completion is told.

    Parameters
    ----------
    model : str
        The name it was asked by.
    n : int
        Answers to each prompt.
    has_logprobs, has_usage, has_origins : bool
        What the request asked for beside the text; the last two for streams.
    id, created : str, int
        Of the completion.
    """

    model: str
    n: int = 1
    has_logprobs: bool = False
    has_usage: bool = False
    has_origins: bool = False
    id: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    async def whole(self, pieces: AsyncIterator[Piece]) -> dict[str, object]:
        """The completion as one object."""
        answers = Answers()
        async for piece in pieces:
            answers.add(piece)
        parts = answers.in_order()
        return {
            **self._head(),
            "choices": [
                self._choice(index, message.text, end.result.tokens, end) for index, message, end in parts
            ],
            "usage": self._usage({index: end for index, _, end in parts}),
            **answers.receipt,
        }

    async def chunks(self, pieces: AsyncIterator[Piece]) -> AsyncIterator[Mapping[str, object]]:
        """The completion in chunks; with usage, the last one has no choices."""
        ends: dict[int, End] = {}
        offsets: dict[int, int] = {}
        async for piece in pieces:
            if piece.end is not None:
                ends[piece.index] = piece.end
            text = "".join(each.text for each in piece.deltas if isinstance(each, TextDelta))
            tokens = () if piece.token is None else (piece.token,)
            is_told = tokens and (self.has_logprobs or self.has_origins)
            if text or piece.end is not None or is_told:
                offset = offsets.get(piece.index, 0)
                choice = self._choice(piece.index, text, tokens, piece.end, offset)
                chunk: dict[str, object] = {**self._head(), "choices": [choice]}
                if piece.end is not None:
                    chunk |= receipt_in([piece.end])
                if self.has_usage:
                    chunk["usage"] = None
                if self.has_origins and tokens:
                    chunk["leadout"] = {
                        "tokens": [
                            {"id": each.token, "text": each.text, "origin": each.origin} for each in tokens
                        ]
                    }
                offsets[piece.index] = offset + len(text)
                yield chunk
        if self.has_usage:
            yield {**self._head(), "choices": [], "usage": self._usage(ends)}

    def _head(self) -> dict[str, object]:
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
        }

    def _choice(
        self, index: int, text: str, tokens: tuple[Token, ...], end: End | None, offset: int = 0
    ) -> dict[str, object]:
        return {
            "index": index,
            "text": text,
            "finish_reason": None if end is None else end.reason,
            "logprobs": text_logprobs(tokens, offset) if self.has_logprobs else None,
        }

    def _usage(self, ends: Mapping[int, End]) -> dict[str, object]:
        groups: dict[int, list[End]] = {}
        for index in sorted(ends):
            groups.setdefault(index // self.n, []).append(ends[index])
        return completion_usage(list(groups.values()))
