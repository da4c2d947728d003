"""What an answer is made of for clients: text, reasoning and tool calls, in pieces as they come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More of the visible text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """More of what stands between ``<think>`` and ``</think>``."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """Tool call number `at` of this answer begins."""

    at: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsDelta:
    """More of the arguments of tool call number `at`, as JSON text."""

    at: int
    text: str


Delta = TextDelta | ReasoningDelta | CallDelta | ArgumentsDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A whole tool call; `arguments` is JSON text, as far as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A whole answer, folded from deltas."""

    text: str
    reasoning: str
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, deltas: Iterable[Delta]) -> Message:
        """A fold over the deltas of one answer."""
        text, reasoning = "", ""
        calls: list[Call] = []
        for delta in deltas:
            match delta:
                case TextDelta():
                    text += delta.text
                case ReasoningDelta():
                    reasoning += delta.text
                case CallDelta():
                    calls.append(Call(id=delta.id, name=delta.name, arguments=""))
                case ArgumentsDelta():
                    call = calls[delta.at]
                    calls[delta.at] = Call(id=call.id, name=call.name, arguments=call.arguments + delta.text)
        return cls(text=text, reasoning=reasoning, calls=tuple(calls))
