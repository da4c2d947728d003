"""Where output goes: results to standard output, everything said about them to standard error."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from rich.console import Console

from leadout.cli.streams import say
from leadout.folders import expanded

MB = 10**6
_WIDTH_OF_A_PIPE = 1000
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # controls; line ends, directions


def note(text: str) -> None:
    """Tell the user something that is not a result."""
    say("\n".join(map(told, text.split("\n"))))


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


def table_console() -> Console:
    """A console for tables, which does not cut them to 80 columns in a pipe."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=_WIDTH_OF_A_PIPE)
