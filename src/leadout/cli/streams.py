"""The three standard streams where they are closed, full or poor in letters."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


def prepare() -> bool:
    """Make the streams safe to use; False when there is no standard output to write to.

    A console that cannot show a character gets a "?" instead of an exception, and bytes that are no text come
    in as what cannot be written as UTF-8. The places of closed streams
    are taken, so that no file that is opened later lies where libraries write their notes, and standard error
    goes nowhere if it was closed.
    """
    has_output = _is_open(sys.stdout)
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _point_to_nowhere(number)
    if not _is_open(sys.stderr):
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "replace"), (sys.stderr, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    return has_output


def say(text: str) -> None:
    """Tell the user something on standard error; where that cannot be written, nothing."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Drop what `stream` still holds and all that follows, so that the process can end."""
    with suppress(OSError, ValueError):  # a stream that is no file has nothing to fail on
        _point_to_nowhere(stream.fileno())


def _is_open(stream: TextIO | None) -> bool:
    """Whether there is such a stream; Python has None for closed ones, whatever their types say."""
    return stream is not None


def _point_to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
