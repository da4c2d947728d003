"""The Schedule seam and two simple schedules: how many tokens to draft for each slot in each round."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from leadout.checks import check_whole
from leadout.engine.events import Round
from leadout.errors import InputError

MAX_K = 64


@runtime_checkable
class Schedule(Protocol):
    """Picks k per slot and round, and learns from each round's outcome and times."""

    @property
    def name(self) -> str:
        """Short description for reports, such as "fixed k=4"."""

    @property
    def longest(self) -> int:
        """The most that `plan` can give; where nothing of that length may be verified, nothing is drafted."""

    def begin(self, slot: int) -> None:
        """A request starts in `slot`; nothing of the last one may be left."""

    def plan(self, slot: int) -> int:
        """Tokens to draft for `slot` in the next round, 0..MAX_K; 0 decodes plainly."""

    def observe(self, slot: int, outcome: Round) -> None:
        """What the round brought."""


class FixedSchedule:
    """Always `k` tokens."""

    def __init__(self, k: int = 4) -> None:
        check_whole("k", k, 0, MAX_K)
        self._k = k

    @property
    def name(self) -> str:
        """Such as "fixed k=4"."""
        return f"fixed k={self._k}"

    @property
    def longest(self) -> int:
        """The fixed k."""
        return self._k

    def begin(self, slot: int) -> None:
        """Nothing to reset."""

    def plan(self, slot: int) -> int:  # noqa: ARG002
        """The fixed k."""
        return self._k

    def observe(self, slot: int, outcome: Round) -> None:
        """Nothing to learn."""


class StepSchedule:
    """One more after a draft that was accepted whole, one fewer after a rejection, within `low`..`high`."""

    def __init__(self, start: int = 4, low: int = 1, high: int = 8) -> None:
        for name, value in (("start", start), ("low", low), ("high", high)):
            check_whole(name, value, 1, MAX_K)  # 0 would stay 0, as nothing drafted teaches nothing
        if not low <= start <= high:
            raise InputError(f"a step schedule needs low <= start <= high, got {low}, {start}, {high}")
        self._start, self._low, self._high = start, low, high
        self._k: dict[int, int] = {}

    @property
    def name(self) -> str:
        """Such as "step k=1..8"."""
        return f"step k={self._low}..{self._high}"

    @property
    def longest(self) -> int:
        """The upper end."""
        return self._high

    def begin(self, slot: int) -> None:
        """Start over at `start`."""
        self._k[slot] = self._start

    def plan(self, slot: int) -> int:
        """The current k of the slot."""
        return self._k[slot]

    def observe(self, slot: int, outcome: Round) -> None:
        """Step up or down; an empty proposal is not a round and teaches nothing."""
        if outcome.drafted:
            step = 1 if outcome.accepted == outcome.drafted else -1
            self._k[slot] = min(self._high, max(self._low, self._k[slot] + step))
