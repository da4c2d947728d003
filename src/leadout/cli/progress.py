"""A download's progress on standard error: a bar on a terminal, one line per stage elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from leadout.cli.output import MB


class BarProgress:
    """Draws the stages that the store reports."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def start(self, total_bytes: int, label: str) -> None:
        """Begin a stage."""
        if not self._console.is_terminal:
            size = f" ({total_bytes / MB:.0f} MB)" if total_bytes else ""
            print(f"{label}{size}", file=sys.stderr, flush=True)
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(label, total=total_bytes or None)
        self._bar.start()

    def advance(self, n_bytes: int) -> None:
        """Count bytes; negative when a download began again."""
        if self._bar is not None:
            self._bar.advance(self._task, n_bytes)

    def finish(self) -> None:
        """End the stage."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
