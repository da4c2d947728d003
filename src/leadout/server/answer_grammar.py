"""The grammar of a whole answer, as a model of its family writes it: reasoning, then text or tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from leadout.constraints import Grammar
from leadout.server.reply_parser import END_OF_THINK, THINK
from leadout.server.reply_style import ReplyStyle
from leadout.server.tool_syntax import HERMES, ToolSyntax

MAX_CALLS = 16
"""Most calls of one answer that is bound to a form; a small model may call for ever."""

_NEW_LINE = r'"\n"'


def answer_grammar(
    style: ReplyStyle,
    text: Grammar | None,
    arguments: Mapping[str, Grammar],
    *,
    must_call: bool,
    is_single: bool,
    is_thinking: bool,
) -> Grammar:
    """What an answer may be.

    Parameters
    ----------
    style : ReplyStyle
        Of the model.
    text : Grammar or None
        Of an answer without calls; None is any text, which calls may follow.
    arguments : mapping of str to Grammar
        Of the functions that may be called, by their names.
    must_call : bool
        Nothing but calls.
    is_single : bool
        At most one call.
    is_thinking : bool
        The answer begins inside its reasoning.
    """
    writer = _Writer(style)
    parts = {f"arguments_{at}": part for at, part in enumerate(arguments.values())}
    rules, bodies = [*writer.start(is_thinking=is_thinking), "ANY: /(?s:.*)/"], []
    if arguments:
        rules += writer.calls({name: f"@arguments_{at}" for at, name in enumerate(arguments)}, is_single)
        if text is None and not must_call:
            rules += writer.text_before_calls()
            bodies += ["FREE", "called rest"]
        else:
            bodies.append(f"{writer.opening} rest")
    if text is not None and not must_call:
        parts["text"] = text
        bodies.append("@text")
    body = "\n".join([*rules, f"body: {' | '.join(bodies)}"])
    return Grammar(kind="lark", body=body, parts=tuple(parts.items()))


@dataclass(frozen=True, slots=True)
class _Calls:
    """How calls follow the opening marker, in Lark: one after the other with `between`."""

    each: tuple[str, ...]
    before: str = ""
    between: str = ""
    after: str = ""
    is_single: bool = False


class _Writer:
    """Writes rules for one model: markers are ids where they are control tokens, else text."""

    def __init__(self, style: ReplyStyle) -> None:
        self._ids = {text: token for token, text in style.markers.items()}
        self._template = style.template or ""
        self._syntax: ToolSyntax = style.syntax or HERMES

    @property
    def opening(self) -> str:
        """What stands before calls."""
        return "" if self._syntax.is_bare else self._marker(self._syntax.open)

    def start(self, *, is_thinking: bool) -> list[str]:
        """The start of an answer: with reasoning before its body, where the model reasons."""
        if is_thinking:
            return ["start: thought GAP body", self._up_to("thought", END_OF_THINK), r"GAP: /\n{0,2}/"]
        if THINK not in self._template:
            return ["start: body"]
        return [
            f"start: ({self._marker(THINK)} thought GAP)? body",
            self._up_to("thought", END_OF_THINK),
            r"GAP: /\n{0,2}/",
        ]

    def calls(self, arguments: Mapping[str, str], is_single: bool) -> list[str]:
        """Calls behind the opening marker; `arguments` has the rule of each function's by its name."""
        calls = self._calls(arguments)
        n_more = 0 if is_single or calls.is_single else MAX_CALLS - 1
        more = f"({calls.between} call){{0,{n_more}}}" if n_more else ""
        return [f"rest: {calls.before} call {more} {calls.after}", f"call: {' | '.join(calls.each)}"]

    def text_before_calls(self) -> list[str]:
        """Text without calls, and what comes before the first one."""
        if self._syntax.is_bare:
            return [r"FREE: /\s*([^\s{](?s:.*))?/", 'called: ""']
        marker = re.escape(self._syntax.open).replace("/", "\\/")
        without = f"FREE: ANY & ~/(?s:.*){marker}(?s:.*)/"
        return [without, self._up_to("called", self._syntax.open)]

    def _calls(self, arguments: Mapping[str, str]) -> _Calls:
        syntax = self._syntax
        if syntax.has_names and "[ARGS]" in self._template:
            each = tuple(f"{_text(name)} {self._marker('[ARGS]')} {rule}" for name, rule in arguments.items())
            return _Calls(each, between=self.opening)
        key = "parameters" if syntax.is_bare else "arguments"
        objects = tuple(f"{_text(_head(name, key))} {rule} {_text('}')}" for name, rule in arguments.items())
        if syntax.has_lists:
            return _Calls(objects, before=_text("["), between=_text(", "), after=_text("]"))
        if syntax.is_bare:
            return _Calls(objects, is_single=True)
        close = self._marker(syntax.close)
        lines = tuple(f"{_NEW_LINE} {each} {_NEW_LINE} {close}" for each in objects)
        return _Calls(lines, between=f"{_NEW_LINE} {self.opening}")

    def _marker(self, text: str) -> str:
        return f"<[{self._ids[text]}]>" if text in self._ids else _text(text)

    def _up_to(self, name: str, marker: str) -> str:
        """A rule of that name: any text up to the first such marker, and the marker."""
        lazy = "" if marker in self._ids else "[lazy]"
        return f"{name}{lazy}: ANY {self._marker(marker)}"


def _head(name: str, key: str) -> str:
    """A call up to its arguments."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{key}": '


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
