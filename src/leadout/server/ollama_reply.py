"""Answers as Ollama tells them: lines of JSON, the last of which has the counts; or one object."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from leadout.errors import LeadoutError
from leadout.server.deltas import ArgumentsDelta, Call, CallDelta, Delta, ReasoningDelta, TextDelta
from leadout.server.json_response import json_bytes
from leadout.server.logprobs import chat_logprobs
from leadout.server.record import Record
from leadout.server.refusal import refusal_of
from leadout.server.reply import End, Piece, receipt_in
from leadout.server.usage import speculation

NDJSON = "application/x-ndjson"


def now_text() -> str:
    """This moment, as Ollama writes times."""
    return time_text(datetime.now(UTC))


def time_text(when: datetime) -> str:
    """A time in UTC, as Ollama writes times."""
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


async def ndjson_lines(chunks: AsyncIterator[Mapping[str, object]]) -> AsyncGenerator[bytes, None]:
    """Each chunk as a line; an error on the way is told in the last one."""
    try:
        async for chunk in chunks:
            yield json_bytes(chunk) + b"\n"
    except LeadoutError as error:
        yield json_bytes(refusal_of(error).to_ollama()) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaReply:
    """How an answer is told.

    Parameters
    ----------
    model : str
        The name it was asked by.
    is_chat : bool
        Whether it is a message, or a plain response.
    has_logprobs : bool
        Whether the request asked for them.
    record : Record
        Knows how long things took.
    prompt_ids : sequence of int or None
        What a further request can go on from; None tells none.
    """

    model: str
    is_chat: bool
    record: Record
    has_logprobs: bool = False
    prompt_ids: Sequence[int] | None = None

    async def chunks(self, pieces: AsyncIterator[Piece]) -> AsyncIterator[Mapping[str, object]]:
        """The answer as it comes; a tool call comes whole, as its arguments are an object."""
        calls = _Calls()
        async for piece in pieces:
            told = _told(calls.whole(piece.deltas, is_last=piece.end is not None))
            logprobs = {}
            if self.has_logprobs and piece.token is not None:
                logprobs = {"logprobs": chat_logprobs([piece.token])}
            if told or logprobs:
                yield {**self._head(), **self._content(told), "done": False, **logprobs}
            if piece.end is not None:
                yield {**self._head(), **self._content({}), **self._last(piece.end)}

    async def whole(self, pieces: AsyncIterator[Piece]) -> dict[str, object]:
        """The answer as one object: a fold over its chunks."""
        told: dict[str, object] = {}
        logprobs: list[object] = []
        last: Mapping[str, object] = {}
        async for chunk in self.chunks(pieces):
            last = chunk
            content = chunk["message"] if self.is_chat else chunk
            if isinstance(content, dict):
                _add(told, content, "content" if self.is_chat else "response")
            part = chunk.get("logprobs")
            logprobs += part if isinstance(part, list) else []
        return {**last, **self._content(told), **({"logprobs": logprobs} if self.has_logprobs else {})}

    def loaded(self, reason: str) -> dict[str, object]:
        """The answer to a request that only loads a model, or unloads it."""
        return {**self._head(), **self._content({}), "done": True, "done_reason": reason}

    def _head(self) -> dict[str, object]:
        return {"model": self.model, "created_at": now_text()}

    def _content(self, told: Mapping[str, object]) -> dict[str, object]:
        text = told.get("text", "")
        rest = {name: value for name, value in told.items() if name != "text"}
        if self.is_chat:
            return {"message": {"role": "assistant", "content": text, **rest}}
        return {"response": text, **rest}

    def _last(self, end: End) -> dict[str, object]:
        usage = end.result.usage
        last: dict[str, object] = {
            "done": True,
            "done_reason": "length" if end.reason == "length" else "stop",
            "total_duration": _ns(self.record.seconds),
            "load_duration": _ns(self.record.load_s),
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": _ns(usage.seconds - usage.decode_seconds),
            "eval_count": usage.completion_tokens,
            "eval_duration": _ns(usage.decode_seconds),
            "speculation": speculation([end]),
            **receipt_in([end]),
        }
        if self.prompt_ids is not None:
            last["context"] = [*self.prompt_ids, *end.result.ids]
        return last


@dataclass(slots=True)
class _Calls:
    """Puts the pieces of tool calls together."""

    _open: Call | None = None

    def whole(self, deltas: Sequence[Delta], *, is_last: bool) -> list[TextDelta | ReasoningDelta | Call]:
        """The same deltas, with calls where they are complete."""
        told: list[TextDelta | ReasoningDelta | Call] = []
        for delta in deltas:
            match delta:
                case CallDelta():
                    told += self._close()
                    self._open = Call(id=delta.id, name=delta.name, arguments="")
                case ArgumentsDelta() if self._open is not None:
                    call = self._open
                    self._open = Call(id=call.id, name=call.name, arguments=call.arguments + delta.text)
                case TextDelta() | ReasoningDelta():
                    told += [*self._close(), delta]
        return [*told, *self._close()] if is_last else told

    def _close(self) -> list[TextDelta | Call]:
        """The call that was open; where its arguments are no object, it is told as text."""
        call, self._open = self._open, None
        if call is None:
            return []
        if _object(call.arguments) is None:
            name = json.dumps(call.name, ensure_ascii=False)
            return [TextDelta(text=f'{{"name": {name}, "arguments": {call.arguments}')]
        return [call]


def _told(parts: Sequence[TextDelta | ReasoningDelta | Call]) -> dict[str, object]:
    """Parts of an answer in Ollama's words; "text" is called differently by the two routes."""
    told: dict[str, object] = {}
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    thinking = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    calls = [part for part in parts if isinstance(part, Call)]
    if text:
        told["text"] = text
    if thinking:
        told["thinking"] = thinking
    if calls:
        told["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": _object(call.arguments)}}
            for call in calls
        ]
    return told


def _object(arguments: str) -> dict[str, object] | None:
    """Arguments as an object; None where the text is none."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _add(told: dict[str, object], content: Mapping[str, object], text: str) -> None:
    """Put what a chunk says behind what was said."""
    for name, key in ((text, "text"), ("thinking", "thinking")):
        if part := content.get(name):
            told[key] = f"{told.get(key, '')}{part}"
    calls, more = told.get("tool_calls", []), content.get("tool_calls")
    if isinstance(calls, list) and isinstance(more, list):
        told["tool_calls"] = [*calls, *more]


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))
