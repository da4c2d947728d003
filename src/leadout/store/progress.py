"""How the store reports what it is doing; drawing it is the caller's business."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives the stages of a fetch, one after the other: start, advance any number of times, finish."""

    def start(self, total_bytes: int, label: str) -> None:
        """Begin a stage of `total_bytes` (0: unknown, such as waiting for another process)."""

    def advance(self, n_bytes: int) -> None:
        """Count `n_bytes` more; negative when a download had to begin again."""

    def finish(self) -> None:
        """End the stage, complete or not."""


class NoProgress:
    """Reports nothing."""

    def start(self, total_bytes: int, label: str) -> None:
        """Do nothing."""

    def advance(self, n_bytes: int) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


@contextmanager
def stage(progress: Progress, total_bytes: int, label: str) -> Iterator[None]:
    """Start a stage and finish it whatever happens inside."""
    progress.start(total_bytes, label)
    try:
        yield
    finally:
        progress.finish()
