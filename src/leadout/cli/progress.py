"""A download's progress on standard error: a bar on a terminal, one line per stage elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from leadout.cli.output import MB, note


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
            note(f"{label}{size}")
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
        )
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


class StepProgress:
    """Counts the steps of named parts on a terminal; elsewhere a line as each part begins.

    Parameters
    ----------
    is_quiet : bool
        Say nothing elsewhere.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._says_parts = not is_quiet and not console.is_terminal
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> StepProgress:
        """Begin to draw."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bars away."""
        self._bar.stop()

    def show(self, part: str, done: int, total: int, /) -> None:
        """`done` of `total` steps of this part are over."""
        if part not in self._tasks:
            self._tasks[part] = self._bar.add_task(part, total=total)
            if self._says_parts:
                note(f"{part}: {total} step{'s' * (total != 1)}")
        self._bar.update(self._tasks[part], completed=done)
