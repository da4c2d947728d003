"""The Schedule seam and two simple schedules: how many tokens to draft for each slot in each round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from leadout.checks import check_whole
from leadout.core.values import Proposal
from leadout.drafters.base import Judge, Willing
from leadout.engine.events import Forecast, Round
from leadout.errors import InputError

MAX_K = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """What a schedule may know of a slot before a round.

    Parameters
    ----------
    position : int
        Tokens answered so far.
    n_left : int
        Tokens that the answer may still grow by.
    n_active : int
        Slots that share the pass.
    ks : sequence of int
        Draft lengths that may be verified, ascending from 0; in exact mode they have gaps.
    n_held : int
        Tokens that each of these slots holds before the pass, on average.
    """

    position: int
    n_left: int
    n_active: int
    ks: Sequence[int]
    n_held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Drafting stopped paying: after how many tokens of the answer, and why."""

    n_tokens: int
    reason: str


@runtime_checkable
class Schedule(Protocol):
    """Picks k per slot and round, and learns from each round's outcome and times.

    One that neither predicts nor learns inherits from it, and says no more than name, `longest` and `plan`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Short description for reports, such as "fixed k=4"."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most that `plan` can give; where nothing of that length may be verified, nothing is drafted."""

    @abstractmethod
    def plan(self, slot: int) -> int:
        """Most tokens to draft for `slot` in the next round, 0..MAX_K; 0 asks no drafter."""

    def begin(self, slot: int) -> None:  # noqa: ARG002
        """A request starts in `slot`; nothing of the last one may be left."""
        return

    def judge(self, slot: int, state: RoundState) -> Judge:  # noqa: ARG002
        """Who decides in the next round how much of that is worth it."""
        return Willing()

    def forecast(self, slot: int, proposal: Proposal) -> Forecast | None:  # noqa: ARG002
        """What to expect of the round now that its proposal is known; None from those who do not predict."""
        return None

    def observe(self, slot: int, outcome: Round) -> None:  # noqa: ARG002
        """What the round brought."""
        return

    def end(self, slot: int) -> Ending | None:  # noqa: ARG002
        """The request in `slot` is over; why it was being decoded plainly by then, or None if it was not."""
        return None

    def close(self) -> None:
        """No more requests come. Closing twice is allowed."""
        return


class FixedSchedule(Schedule):
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

    def plan(self, slot: int) -> int:  # noqa: ARG002
        """The fixed k."""
        return self._k


class StepSchedule(Schedule):
    """One more after a draft that was accepted whole, one fewer after a rejection, within `low`..`high`."""

    def __init__(self, start: int = 4, low: int = 1, high: int = 8) -> None:
        for name, value in (("start", start), ("low", low), ("high", high)):
            check_whole(name, value, 1, MAX_K)  # 0 would stay 0, as nothing drafted teaches nothing
        if not low <= start <= high:
            raise InputError(f"a step schedule needs low <= start <= high, got {low}, {start}, {high}")
        self._start, self._low, self._high = start, low, high
        self._k: dict[int, int] = {}

    @classmethod
    def from_k(cls, k: int) -> StepSchedule:
        """One that starts at `k`, whatever that is."""
        check_whole("k", k, 1, MAX_K)
        return cls(k, high=max(cls().longest, k))

    @property
    def name(self) -> str:
        """Such as "step k=1..8"."""
        return f"step k={self._low}..{self._high}"

    @property
    def longest(self) -> int:
        """The upper end."""
        return self._high

    def plan(self, slot: int) -> int:
        """The current k of the slot."""
        return self._k[slot]

    def begin(self, slot: int) -> None:
        """Start over at `start`."""
        self._k[slot] = self._start

    def observe(self, slot: int, outcome: Round) -> None:
        """Step up or down; an empty proposal is not a round and teaches nothing."""
        if outcome.drafted:
            step = 1 if outcome.accepted == outcome.drafted else -1
            self._k[slot] = min(self._high, max(self._low, self._k[slot] + step))
