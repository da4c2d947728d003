"""What form an answer must have, as a value; knows neither tokens nor the library that reads it.

JSON is written on one line, with one space after commas and colons: a small model that may write as much
white space as it likes can go on with that for ever, and what is fixed need not be computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leadout.checks import check_kind, shown
from leadout.errors import InputError

MAX_CHARACTERS = 100_000
"""Longest schema, pattern or grammar; what these can cost beyond their length, the compiler limits."""

_JSON = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "lenient": False,  # keywords that cannot be kept are errors
    "coerce_one_of": False,  # "one of" is not "any of"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The form of an answer.

    Parameters
    ----------
    kind : "json_schema" or "lark"
    body : str
        A JSON schema as text, or a Lark grammar in llguidance's dialect; its rule is `start`.
    parts : tuple of (str, Grammar)
        Grammars that `body` refers to as @name.
    """

    kind: Literal["json_schema", "lark"]
    body: str
    parts: tuple[tuple[str, Grammar], ...] = ()

    def __post_init__(self) -> None:
        if len(self.body) > MAX_CHARACTERS:
            raise InputError(f"has {len(self.body)} characters; {MAX_CHARACTERS} are the most")

    def source(self) -> str:
        """The grammar in the JSON form that llguidance reads."""
        return json.dumps({"grammars": self._list("start")})

    def _list(self, name: str) -> list[dict[str, object]]:
        """Itself and all parts, by name."""
        if self.kind == "json_schema":
            return [{"name": name, "json_schema": {**json.loads(self.body), "x-guidance": _JSON}}]
        own: dict[str, object] = {"name": name, "lark_grammar": self.body}
        return [own, *(each for key, part in self.parts for each in part._list(key))]


def json_schema(schema: Mapping[str, object]) -> Grammar:
    """JSON that is valid by a schema, always, with its properties in the order of the schema.

    Parameters
    ----------
    schema : mapping
        A JSON schema (drafts 4 to 2020-12). Keywords that cannot be kept, such as ``not``, are refused when
        it is compiled; annotations and keywords that the standard does not know mean nothing.

    Raises
    ------
    InputError
        If it is no object of JSON values, or too large.
    """
    check_kind("schema", schema, Mapping, "a JSON schema, which is an object")
    try:
        body = json.dumps(dict(schema), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the schema cannot be written as JSON: {error}") from error
    return _made("schema", "json_schema", body)


def json_object() -> Grammar:
    """Any JSON object."""
    return json_schema({"type": "object"})


def regex(pattern: str) -> Grammar:
    """Text that matches a regular expression as a whole.

    Parameters
    ----------
    pattern : str
        In the syntax of Rust's `regex` crate, without anchors and look-around; a dot is no line break.

    Raises
    ------
    InputError
        If it is no text, empty, or too long.
    """
    _check_text("pattern", pattern)
    return _made("pattern", "lark", f"start: /{_without_slashes(pattern)}/")


def lark(text: str) -> Grammar:
    """Text of a context-free grammar, which begins at the rule `start`.

    Parameters
    ----------
    text : str
        In the dialect of Lark that llguidance reads (``docs/syntax.md`` of that project).

    Raises
    ------
    InputError
        If it is no text, empty, or too long.
    """
    _check_text("grammar", text)
    return _made("grammar", "lark", text)


def _made(name: str, kind: Literal["json_schema", "lark"], body: str) -> Grammar:
    try:
        return Grammar(kind=kind, body=body)
    except InputError as error:
        raise InputError(f"the {name} {error}") from error


def _check_text(name: str, text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"the {name} is {shown(text)}; it must be text, and not empty")


def _without_slashes(pattern: str) -> str:
    """The pattern as it is written between slashes, on one line."""
    written, is_escaped = "", False
    for character in pattern:
        if character == "/" and not is_escaped:
            written += "\\/"
        elif character in "\n\r":
            written += {"\n": "n", "\r": "r"}[character] if is_escaped else repr(character)[1:-1]
        else:
            written += character
        is_escaped = character == "\\" and not is_escaped
    return written
