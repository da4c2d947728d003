"""Where prompts come from: an option, standard input or a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from leadout.errors import InputError
from leadout.folders import expanded

STANDARD_INPUT = "-"

Message = dict[str, object]


def read_prompt(prompt: str | None, prompt_file: Path | None) -> str:
    """The prompt's text.

    Raises
    ------
    InputError
        If none or two were given, a file cannot be read, or it is not UTF-8 text.
    """
    if (prompt is None) == (prompt_file is None):
        count = "no prompt" if prompt is None else "two prompts"
        raise InputError(f"{count}: give one of -p TEXT, -p - (standard input) and --prompt-file FILE")
    if prompt_file is not None:
        return read_text(prompt_file, "prompt file")
    if prompt == STANDARD_INPUT:
        if not has_standard_input():
            raise InputError("standard input is closed; give the prompt with -p TEXT or --prompt-file FILE")
        return _decode(sys.stdin.buffer.read(), "standard input")
    return checked(prompt or "", "the prompt")


def read_text(path: Path, what: str) -> str:
    """The text of a file, which is called `what` in messages.

    Raises
    ------
    InputError
        If it cannot be read, or is not UTF-8 text.
    """
    try:
        return _decode(expanded(path).read_bytes(), f"{what} {path}")
    except OSError as error:
        raise InputError(f"{what} {path}: {error.strerror or error}") from error


def read_json(path: Path, what: str) -> Any:
    """The JSON in a file, which is called `what` in messages.

    Raises
    ------
    InputError
        If the file cannot be read, or is no JSON.
    """
    text = read_text(path, what)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} {path} is not JSON: {error}") from error


def has_standard_input() -> bool:
    """Whether there is one; Python has none where it was closed (``<&-``), whatever its type says."""
    stream: TextIO | None = sys.stdin
    return stream is not None


def checked(text: str, what: str) -> str:
    """`text`, when it can be written as UTF-8; bytes that the console could not decode cannot.

    Raises
    ------
    InputError
        If it cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} is not UTF-8 text; give it in a file with --prompt-file") from error
    return text


def conversation(system: str | None, *turns: Message) -> list[Message]:
    """Messages for the chat template."""
    first: list[Message] = [{"role": "system", "content": system}] if system is not None else []
    return [*first, *turns]


def _decode(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what} is not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}"
        ) from error
