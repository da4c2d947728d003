"""Answers as chat completions: whole, and in chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from leadout.engine.events import Round, Token
from leadout.server.deltas import ArgumentsDelta, CallDelta, Delta, Message, ReasoningDelta, TextDelta
from leadout.server.logprobs import chat_logprobs
from leadout.server.reply import Answers, End, Piece, receipt_in
from leadout.server.usage import completion_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """How a chat completion is told.

    Parameters
    ----------
    model : str
        The name it was asked by.
    has_logprobs, has_usage, has_origins : bool
        What the request asked for beside the text; the last two for streams.
    id, created : str, int
        Of the completion.
    """

    model: str
    has_logprobs: bool = False
    has_usage: bool = False
    has_origins: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    async def whole(self, pieces: AsyncIterator[Piece]) -> dict[str, object]:
        """The completion as one object."""
        answers = Answers()
        async for piece in pieces:
            answers.add(piece)
        parts = answers.in_order()
        return {
            **self._head("chat.completion"),
            "choices": [self._choice(*part) for part in parts],
            "usage": completion_usage([[end for _, _, end in parts]]),
            **answers.receipt,
        }

    async def chunks(self, pieces: AsyncIterator[Piece]) -> AsyncIterator[Mapping[str, object]]:
        """The completion in chunks; with usage, the last one has no choices."""
        ends: list[End] = []
        async for piece in pieces:
            chunk = self._chunk(piece)
            if piece.end is not None:
                ends.append(piece.end)
            if chunk is not None:
                yield chunk
        if self.has_usage:
            yield {
                **self._head("chat.completion.chunk"),
                "choices": [],
                "usage": completion_usage([ends]),
            }

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _choice(self, index: int, message: Message, end: End) -> dict[str, object]:
        return {
            "index": index,
            "message": chat_message(message),
            "finish_reason": end.reason,
            "logprobs": _logprobs(end.result.tokens) if self.has_logprobs else None,
        }

    def _chunk(self, piece: Piece) -> dict[str, object] | None:
        is_first = piece.token is None and piece.end is None
        tokens = [] if piece.token is None else [piece.token]
        is_told = self.has_logprobs or self.has_origins
        if not is_first and not piece.deltas and piece.end is None and not is_told:
            return None
        delta = {"role": "assistant", "content": ""} if is_first else _merged(piece.deltas)
        choice: dict[str, object] = {
            "index": piece.index,
            "delta": delta,
            "finish_reason": None if piece.end is None else piece.end.reason,
            "logprobs": _logprobs(tokens) if self.has_logprobs and tokens else None,
        }
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        if piece.end is not None:
            chunk |= receipt_in([piece.end])
        if self.has_usage:
            chunk["usage"] = None
        if self.has_origins and (tokens or piece.rounds):
            chunk["leadout"] = {
                "tokens": [_origin(token) for token in tokens],
                "rounds": [_round(each) for each in piece.rounds],
            }
        return chunk


def chat_message(message: Message) -> dict[str, object]:
    """A whole answer as a message."""
    told: dict[str, object] = {
        "role": "assistant",
        "content": message.text if message.text or not message.calls else None,
        "refusal": None,
    }
    if message.reasoning:
        told["reasoning_content"] = message.reasoning
    if message.calls:
        told["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return told


def _merged(deltas: Sequence[Delta]) -> dict[str, object]:
    """All deltas of a piece in one."""
    told: dict[str, object] = {}
    text = "".join(each.text for each in deltas if isinstance(each, TextDelta))
    reasoning = "".join(each.text for each in deltas if isinstance(each, ReasoningDelta))
    if text:
        told["content"] = text
    if reasoning:
        told["reasoning_content"] = reasoning
    calls = [_call(each) for each in deltas if isinstance(each, CallDelta | ArgumentsDelta)]
    if calls:
        told["tool_calls"] = calls
    return told


def _call(delta: CallDelta | ArgumentsDelta) -> dict[str, object]:
    if isinstance(delta, CallDelta):
        function = {"name": delta.name, "arguments": ""}
        return {"index": delta.at, "id": delta.id, "type": "function", "function": function}
    return {"index": delta.at, "function": {"arguments": delta.text}}


def _logprobs(tokens: Sequence[Token]) -> dict[str, object]:
    return {"content": chat_logprobs(tokens), "refusal": None}


def _origin(token: Token) -> dict[str, object]:
    return {"id": token.token, "text": token.text, "origin": token.origin}


def _round(each: Round) -> dict[str, object]:
    plain_s = 0.0 if each.forecast is None else each.forecast.plain_s
    return {
        "drafted": each.drafted,
        "accepted": each.accepted,
        "emitted": each.emitted,
        "seconds": each.draft_s + each.verify_s + each.other_s,
        "plain_seconds": plain_s * each.emitted or None,
    }
