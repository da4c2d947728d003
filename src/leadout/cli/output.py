"""Where output goes: results to standard output, everything said about them to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement

from leadout.cli.streams import say
from leadout.folders import expanded

if TYPE_CHECKING:
    from rich.table import Table

MB = 10**6
_WIDTH_OF_A_PIPE = 1000
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # controls; line ends, directions


def note(text: str) -> None:
    """Tell the user something that is not a result; on a terminal lines end between words."""
    lines = list(map(told, text.split("\n")))
    if sys.stderr.isatty():
        width = Console(stderr=True).width
        lines = [fill(line, width) if len(line) > width else line for line in lines]
    say("\n".join(lines))


def told(text: str) -> str:
    """One line in which names of files and models, which may have any character, cannot steer a terminal."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_json(value: object) -> None:
    """One JSON object on one line; what the console cannot write is escaped, never lost."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:  # another script than the console's, or a file's name that is no text
        text = json.dumps(value)
    print(text, flush=True)


def write_json(path: Path, value: object) -> None:
    """One JSON object into a file, indented for those who read it."""
    expanded(path).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def print_table(table: Table) -> None:
    """A table as wide as the terminal, or $COLUMNS; without either, as in a pipe, as wide as it is.

    Words are never broken, so that names can be copied. Where that leaves no table, its rows come one below
    the other.
    """
    console = Console(highlight=False, markup=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console = Console(highlight=False, markup=False, width=_WIDTH_OF_A_PIPE)
    for at, column in enumerate(table.columns):
        column.no_wrap = at == 0 or all(" " not in str(cell) for cell in column.cells)
    free = console.options.update(width=_WIDTH_OF_A_PIPE)
    if Measurement.get(console, free, table).minimum <= console.width:
        console.print(table)
    else:
        _print_rows(table, console.width)


def _print_rows(table: Table, width: int) -> None:
    """Each row's first cell on a line, and below it the others with their headings."""
    headings = [str(column.header) for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        print(first)
        named = zip(headings[1:], map(str, others), strict=True)
        text = ", ".join(f"{heading}: {cell}" for heading, cell in named if cell)
        print(fill(text, width, indent="    "))


def fill(text: str, width: int, *, indent: str = "") -> str:
    """The text in lines of at most that width, or of one word."""
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
