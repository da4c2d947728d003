"""The items a response consists of, and the steps in which each of them comes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

Step = tuple[str, Mapping[str, object]]
"""The type of an event, and the rest of it."""


class TextOutput:
    """A message, or reasoning: an item with one part of text in it.

    Parameters
    ----------
    kind : "message" or "reasoning"
    """

    def __init__(self, kind: Literal["message", "reasoning"]) -> None:
        self.kind: Literal["message", "reasoning"] = kind
        self._id = f"{'msg' if kind == 'message' else 'rs'}_{secrets.token_hex(12)}"
        self._event = f"response.{'output_text' if kind == 'message' else 'reasoning_text'}"
        self._status, self._text = "in_progress", ""
        self._logprobs: list[object] = []

    def opened(self, at: int) -> Iterator[Step]:
        """The item begins, as number `at`, and its part."""
        yield "response.output_item.added", {"output_index": at, "item": self._told([])}
        yield "response.content_part.added", {**self._place(at), "part": self._part()}

    def grown(self, at: int, text: str, logprobs: Sequence[object]) -> Iterator[Step]:
        """More text."""
        self._text += text
        self._logprobs += logprobs
        told = {"delta": text, "logprobs": list(logprobs)} if self.kind == "message" else {"delta": text}
        yield f"{self._event}.delta", {**self._place(at), **told}

    def closed(self, at: int, status: str) -> Iterator[Step]:
        """The text, the part and the item are complete, or cut."""
        self._status = status
        text = {"text": self._text}
        told = {**text, "logprobs": self._logprobs} if self.kind == "message" else text
        yield f"{self._event}.done", {**self._place(at), **told}
        yield "response.content_part.done", {**self._place(at), "part": self._part()}
        yield "response.output_item.done", {"output_index": at, "item": self.to_json()}

    def to_json(self) -> dict[str, object]:
        """All of it so far."""
        return self._told([self._part()])

    def _place(self, at: int) -> dict[str, object]:
        return {"item_id": self._id, "output_index": at, "content_index": 0}

    def _part(self) -> dict[str, object]:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": self._text}
        return {"type": "output_text", "text": self._text, "annotations": [], "logprobs": self._logprobs}

    def _told(self, content: Sequence[object]) -> dict[str, object]:
        item: dict[str, object] = {"id": self._id, "type": self.kind, "status": self._status}
        if self.kind == "reasoning":
            return {**item, "summary": [], "content": content}
        return {**item, "role": "assistant", "content": content}


class CallOutput:
    """A call of a function.

    Parameters
    ----------
    call_id, name : str
        What its result will be told by, and the function.
    """

    kind = "function_call"

    def __init__(self, call_id: str, name: str) -> None:
        self._id = f"fc_{secrets.token_hex(12)}"
        self._call_id, self._name = call_id, name
        self._status, self._arguments = "in_progress", ""

    def opened(self, at: int) -> Iterator[Step]:
        """The call begins, as item number `at`."""
        yield "response.output_item.added", {"output_index": at, "item": self.to_json()}

    def grown(self, at: int, text: str, logprobs: Sequence[object]) -> Iterator[Step]:  # noqa: ARG002
        """More of its arguments."""
        self._arguments += text
        told = {"item_id": self._id, "output_index": at, "delta": text}
        yield "response.function_call_arguments.delta", told

    def closed(self, at: int, status: str) -> Iterator[Step]:
        """The arguments are complete, or cut."""
        self._status = status
        told = {"item_id": self._id, "output_index": at, "arguments": self._arguments, "name": self._name}
        yield "response.function_call_arguments.done", told
        yield "response.output_item.done", {"output_index": at, "item": self.to_json()}

    def to_json(self) -> dict[str, object]:
        """All of it so far."""
        return {
            "id": self._id,
            "type": self.kind,
            "status": self._status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": self._arguments,
        }


Item = TextOutput | CallOutput
