"""How far the proof is, told to whoever wants to know."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told how far the proof is."""

    def __call__(self, part: str, done: int, total: int, /) -> None:
        """`done` of `total` steps of this part are over."""


class Steps(Protocol):
    """Told how far one part is."""

    def __call__(self, done: int, total: int, /) -> None:
        """`done` of `total` steps are over."""


def quiet(*progress: object) -> None:
    """Tell nobody."""
