"""One tool call out of text that comes in pieces: as a JSON object, as bare arguments, or as XML.

Each reader gives the name as soon as it is known and arguments as they come, so that joined arguments are the
same text whatever the pieces were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from leadout.server.json_scanner import JsonScanner

ParameterTypes = Mapping[str, Mapping[str, object]]
"""For each function: its parameters' JSON schemas by name."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a piece of text brought.

    Parameters
    ----------
    name : str or None
        The function's name, once.
    arguments : str
        More of the arguments; never before the name.
    rest : str or None
        What followed the call, once it is complete.
    is_call : bool
        False when the text turned out to be no call.
    """

    name: str | None = None
    arguments: str = ""
    rest: str | None = None
    is_call: bool = True


class CallReader(Protocol):
    """Reads one call."""

    @property
    def raw(self) -> str:
        """All text so far, while no name is known; what to show where it turns out to be no call."""

    def feed(self, text: str) -> Read:
        """Take more text."""


class ArgumentsReader:
    """The arguments of a call whose name is known, as one JSON value: ``{"city": "Paris"}``."""

    def __init__(self, name: str) -> None:
        self._name: str | None = name
        self._scanner = JsonScanner()

    @property
    def raw(self) -> str:
        """Nothing: the name was known before."""
        return ""

    def feed(self, text: str) -> Read:
        """Pass characters on up to the end of the value."""
        name, self._name = self._name, None
        for i, character in enumerate(text):
            self._scanner.take(character)
            if self._scanner.depth == 0 and character in "}]":
                return Read(name=name, arguments=text[: i + 1], rest=text[i + 1 :])
        return Read(name=name, arguments=text)


class JsonCallReader:
    """``{"name": "f", "arguments": {...}}``, also with "parameters", and with its keys in any order.

    Where the name stands first, as models are told to write it, arguments are passed on as they come; else
    the object is read to its end first.
    """

    _HEADER = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*\{')

    def __init__(self) -> None:
        self._scanner = JsonScanner()
        self._head: list[str] = []
        self._phase: Literal["head", "arguments", "tail"] = "head"

    @property
    def raw(self) -> str:
        """All text so far, while no name is known."""
        return "".join(self._head) if self._phase == "head" else ""

    def feed(self, text: str) -> Read:
        """Read on to the end of the object."""
        name, arguments = None, ""
        for i, character in enumerate(text):
            self._scanner.take(character)
            if self._phase == "arguments":
                arguments += character
                if self._scanner.depth == 1:
                    self._phase = "tail"
            elif self._phase == "head":
                self._head.append(character)
                if character == "{" and (header := self._HEADER.fullmatch(self.raw)):
                    name, arguments, self._phase = header[1], "{", "arguments"
            if self._scanner.depth == 0 and not self._scanner.is_in_string:
                rest = text[i + 1 :]
                return self._whole(rest) if self._phase == "head" else Read(name, arguments, rest)
        return Read(name, arguments)

    def _whole(self, rest: str) -> Read:
        """What the complete object says, where it did not begin with its name and arguments."""
        try:
            said = json.loads(self.raw)
        except ValueError:
            return Read(rest=rest, is_call=False)
        name = said.get("name") if isinstance(said, dict) else None
        if not isinstance(name, str) or not name:
            return Read(rest=rest, is_call=False)
        arguments = said.get("arguments", said.get("parameters", {}))
        if not isinstance(arguments, str):  # some models write JSON in a string
            arguments = json.dumps(arguments, ensure_ascii=False)
        self._phase = "tail"
        return Read(name, arguments, rest)


class XmlCallReader:
    """``<function=f><parameter=city>Paris</parameter></function>``, as Qwen3-Coder writes it.

    Parameters
    ----------
    types : ParameterTypes
        Values of parameters declared as anything but text are taken as JSON where they are JSON.
    """

    _START = re.compile(r"\s*<function=([^<>\s]+)>\s*")
    _PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>")
    _VALUE_END, _END = "</parameter>", "</function>"

    def __init__(self, types: ParameterTypes) -> None:
        self._types = types
        self._buffer = ""
        self._name: str | None = None
        self._key: str | None = None
        self._n_given = 0

    @property
    def raw(self) -> str:
        """All text so far, while no name is known."""
        return self._buffer if self._name is None else ""

    def feed(self, text: str) -> Read:
        """Read on; a parameter is passed on once it is complete."""
        self._buffer += text
        name, arguments = None, ""
        if self._name is None:
            if not (start := self._START.match(self._buffer)):
                return Read(is_call=">" not in self._buffer)
            name = self._name = start[1]
            self._buffer = self._buffer[start.end() :]
        while True:
            if self._key is None:
                if found := self._PARAMETER.match(self._buffer):
                    self._key, self._buffer = found[1], self._buffer[found.end() :]
                elif self._END in self._buffer:
                    rest = self._buffer.partition(self._END)[2]
                    return Read(name, arguments + ("}" if self._n_given else "{}"), rest)
                else:
                    return Read(name, arguments)
            value, end, rest = self._buffer.partition(self._VALUE_END)
            if not end:
                return Read(name, arguments)
            arguments += self._member(self._key, value)
            self._key, self._buffer = None, rest

    def _member(self, key: str, value: str) -> str:
        """One parameter as JSON, after what came before it."""
        self._n_given += 1
        before = "{" if self._n_given == 1 else ", "
        value = value.removeprefix("\n").removesuffix("\n")
        return f"{before}{json.dumps(key, ensure_ascii=False)}: {self._typed(key, value)}"

    def _typed(self, key: str, value: str) -> str:
        schema = self._types.get(self._name or "", {}).get(key)
        if isinstance(schema, Mapping) and schema.get("type") != "string":
            try:
                return json.dumps(json.loads(value), ensure_ascii=False)
            except ValueError:
                pass
        return json.dumps(value, ensure_ascii=False)
