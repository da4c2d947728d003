"""The Jinja environment that chat templates of downloaded models run in.

The same language as in transformers (`chat_template_utils`): immutable sandbox, trimmed blocks, loop
controls, ``tojson`` without HTML escapes, ``raise_exception``, ``strftime_now``, the ``generation`` tag. In
addition a render may take only so many loop turns and build only so large values, so that a hostile or
broken template ends in an error. What one filter or format string allocates in one step is not bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TURNS = 1_000_000
"""Loop turns of one render, all loops together; a thousand messages of ten parts take some ten thousand."""

MAX_CHARACTERS = 16_777_216
"""Longest text or list that a render may build; some four million tokens."""

_TOO_LARGE = f"a value of more than {MAX_CHARACTERS:,} characters or items"


class GenerationTag(Extension):
    """``{% generation %}`` marks the assistant's part for training; its body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """An environment for one render; `now` is what ``strftime_now`` tells."""

    intercepted_binops = frozenset(("+", "*", "**"))

    def __init__(self, now: datetime) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
        self._turns = 0
        self.filters["tojson"] = _tojson
        self.filters["_counted"] = self._counted
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = now.strftime

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
        return tree

    def _counted(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            self._turns += 1
            if self._turns > MAX_TURNS:
                raise SecurityError(f"more than {MAX_TURNS:,} loop turns")
            yield item

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse sums, products and powers whose result would be absurdly large, before they are made."""
        if operator == "+" and _size(left) + _size(right) > MAX_CHARACTERS:
            raise SecurityError(_TOO_LARGE)
        if operator == "*" and _size(left) * _number(right) + _size(right) * _number(left) > MAX_CHARACTERS:
            raise SecurityError(_TOO_LARGE)
        if operator == "**" and (abs(_number(left)) > 1e6 or abs(_number(right)) > 100):
            raise SecurityError("a power with too large a base or exponent")
        return super().call_binop(context, operator, left, right)


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
