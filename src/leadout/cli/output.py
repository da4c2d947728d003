"""Where output goes: results to standard output, everything said about them to standard error."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from leadout.cli.streams import say
from leadout.folders import expanded

MB = 10**6
_WIDTH_OF_A_PIPE = 1000


def note(text: str) -> None:
    """Tell the user something that is not a result."""
    say(text)


def print_json(value: object) -> None:
    """One JSON object on one line; other scripts than the console's are escaped, never lost."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, ensure_ascii=not is_utf8), flush=True)


def write_json(path: Path, value: object) -> None:
    """One JSON object into a file, indented for those who read it."""
    expanded(path).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def table_console() -> Console:
    """A console for tables, which does not cut them to 80 columns in a pipe."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=_WIDTH_OF_A_PIPE)
