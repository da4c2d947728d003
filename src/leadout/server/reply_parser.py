"""The text of an answer, token by token, to visible text, reasoning and tool calls.

The same deltas come out in sum, whatever pieces the text comes in.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from leadout.server.call_readers import (
    ArgumentsReader,
    CallReader,
    JsonCallReader,
    ParameterTypes,
    XmlCallReader,
)
from leadout.server.deltas import ArgumentsDelta, CallDelta, Delta, ReasoningDelta, TextDelta
from leadout.server.tool_syntax import ToolSyntax

THINK, END_OF_THINK = "<think>", "</think>"

_NAMED = re.compile(r"([\w.-]+)(?:\[CALL_ID\][\w.-]*)?(?:\[ARGS\])?\s*(?=\{)")
_BEGUN_NAME = re.compile(r"[\w.-]+(?:\[[\w.\[\]-]*)?\s*")
_FUNCTION = "<function="
_SPACE = " \t\r\n,;"


def new_call_id() -> str:
    """An id for a tool call."""
    return f"call_{secrets.token_hex(12)}"


class ReplyParser:
    """Reads one answer.

    Parameters
    ----------
    tools : ToolSyntax or None
        How calls are written; None where the request offered no tools, and nothing is taken for a call.
    types : mapping
        The tools' parameters; see `ParameterTypes`.
    is_thinking : bool
        The prompt ended with ``<think>``, so the answer begins inside it.
    new_id : callable
        Makes the id of each call.

    Attributes
    ----------
    is_reasoning : bool
        Whether what comes next is reasoning.
    n_calls : int
        Calls so far.
    """

    def __init__(
        self,
        tools: ToolSyntax | None = None,
        types: ParameterTypes | None = None,
        *,
        is_thinking: bool = False,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self.is_reasoning = is_thinking
        self.n_calls = 0
        self._tools, self._types, self._new_id = tools, types or {}, new_id
        self._buffer = ""
        self._deltas: list[Delta] = []
        self._reader: CallReader | None = None
        self._opened = ""  # the marker that was read, until a call came after it
        self._state: Callable[[], bool] = self._thought_begins if is_thinking else self._beginning

    def feed(self, text: str) -> list[Delta]:
        """What became certain with more text."""
        self._buffer += text
        while self._buffer and self._state():  # a state takes what it can, and says whether another goes on
            pass
        return self._take()

    def finish(self) -> list[Delta]:
        """What was still held back when the answer ended."""
        if self._reader is not None:
            self._say(self._given_back(self._reader.raw))
        elif self.is_reasoning:
            self._think(self._buffer.rstrip())
        elif self._state != self._between_calls or self._opened:
            self._say(self._given_back(self._buffer))
        self._buffer = ""
        return self._take()

    def _take(self) -> list[Delta]:
        deltas, self._deltas = self._deltas, []
        return deltas

    def _say(self, text: str) -> None:
        if text:
            self._deltas.append(TextDelta(text=text))

    def _think(self, text: str) -> None:
        if text:
            self._deltas.append(ReasoningDelta(text=text))

    def _beginning(self) -> bool:
        """Before the first visible character: reasoning, a bare call, or text."""
        start = self._buffer.lstrip()
        if THINK.startswith(start) and start != THINK:  # an empty start, too
            return False
        if start.startswith(THINK):
            self._buffer, self.is_reasoning = start.removeprefix(THINK), True
            self._state = self._thought_begins
        else:
            self._state = self._reply
        return True

    def _thought_begins(self) -> bool:
        self._buffer = self._buffer.lstrip()
        if self._buffer:
            self._state = self._thought
        return bool(self._buffer)

    def _thought(self) -> bool:
        """Inside ``<think>``."""
        thought, end, rest = self._buffer.partition(END_OF_THINK)
        if not end:
            n = _n_held(self._buffer, END_OF_THINK)
            self._think(self._buffer[: len(self._buffer) - n])
            self._buffer = self._buffer[len(self._buffer) - n :]
            return False
        self._think(thought.rstrip())
        self._buffer, self.is_reasoning = rest, False
        self._state = self._after_thought
        return True

    def _after_thought(self) -> bool:
        self._buffer = self._buffer.lstrip()
        if self._buffer:
            self._state = self._reply
        return bool(self._buffer)

    def _reply(self) -> bool:
        """The first visible character of the reply."""
        is_bare = self._tools is not None and self._tools.is_bare and self._buffer.lstrip().startswith("{")
        self._state = self._between_calls if is_bare else self._text
        return True

    def _text(self) -> bool:
        """Visible text, up to where a call begins."""
        if self._tools is None:
            self._say(self._buffer)
            self._buffer = ""
            return False
        text, opened, rest = self._buffer.partition(self._tools.open)
        if not opened:
            n = _n_held(self._buffer, self._tools.open)
            self._say(self._buffer[: len(self._buffer) - n])
            self._buffer = self._buffer[len(self._buffer) - n :]
            return False
        self._say(text.rstrip())
        self._buffer, self._opened = rest, opened
        self._state = self._between_calls
        return True

    def _between_calls(self) -> bool:
        """After a marker or a call: another call, the end of the calls, or text after all."""
        syntax = self._tools
        self._buffer = self._buffer.lstrip(_SPACE)
        if syntax is None or not self._buffer:
            return False
        for marker in (syntax.open, syntax.close, _FUNCTION):
            if self._buffer != marker and marker.startswith(self._buffer):
                return False
        if self._buffer.startswith(syntax.open):
            self._buffer, self._opened = self._buffer.removeprefix(syntax.open), syntax.open
        elif syntax.close and self._buffer.startswith(syntax.close):
            self._buffer, self._opened = self._buffer.removeprefix(syntax.close), ""
            self._state = self._text
        elif syntax.has_lists and self._buffer[0] in "[]":
            self._buffer = self._buffer[1:]
        elif self._buffer[0] == "{":
            self._reader, self._state = JsonCallReader(), self._call
        elif self._buffer.startswith(_FUNCTION):
            self._reader, self._state = XmlCallReader(self._types), self._call
        elif syntax.has_names and (named := _NAMED.match(self._buffer)):
            self._reader, self._state = ArgumentsReader(named[1]), self._call
            self._buffer = self._buffer[named.end() :]
        elif syntax.has_names and _BEGUN_NAME.fullmatch(self._buffer):
            return False
        else:
            self._buffer, self._state = self._given_back(self._buffer), self._plain_text
        return True

    def _plain_text(self) -> bool:
        """What looked like calls and was none; the marker in it must not be found again."""
        self._say(self._buffer)
        self._buffer, self._state = "", self._text
        return False

    def _call(self) -> bool:
        """Inside a call."""
        if self._reader is None:
            return False
        read, self._buffer = self._reader.feed(self._buffer), ""
        if read.name is not None:
            self._deltas.append(CallDelta(at=self.n_calls, id=self._new_id(), name=read.name))
            self.n_calls += 1
            self._opened = ""
        if read.arguments:
            self._deltas.append(ArgumentsDelta(at=self.n_calls - 1, text=read.arguments))
        if not read.is_call:
            self._say(self._given_back(self._reader.raw))
            self._buffer, self._reader, self._state = read.rest or "", None, self._text
        elif read.rest is not None:
            self._buffer, self._reader, self._state = read.rest, None, self._between_calls
        return bool(self._buffer)

    def _given_back(self, text: str) -> str:
        """Text that was no call, with the marker before it."""
        opened, self._opened = self._opened, ""
        return opened + text


def _n_held(text: str, marker: str) -> int:
    """Length of the end of `text` that may belong to `marker`: space, and the beginning of the marker."""
    n = next(n for n in range(min(len(marker) - 1, len(text)), -1, -1) if text.endswith(marker[:n]))
    return len(text) - len(text[: len(text) - n].rstrip())
