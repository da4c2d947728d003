"""How far a benchmark is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told how far the run is."""

    def __call__(self, part: str, done: int, total: int, /) -> None:
        """`done` of `total` steps of this part are over."""
