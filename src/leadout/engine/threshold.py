"""A schedule that drafts while the drafter is sure enough, whatever that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadout.checks import check_number, check_whole
from leadout.core.values import Proposal
from leadout.drafters.base import Judge, Untried, Weighed
from leadout.engine.schedule import MAX_K, RoundState, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdJudge:
    """Takes tokens as long as each has at least this confidence.

    Parameters
    ----------
    threshold : float in 0..1
    ks : sequence of int
        Draft lengths that may be verified, ascending from 0.
    """

    threshold: float
    ks: Sequence[int]

    def learns(self, outcome: Untried) -> None:
        """Nothing."""

    @property
    def wants_confidences(self) -> bool:
        """Yes."""
        return True

    def weigh(self, drafter: str, confidences: Sequence[float]) -> Weighed:  # noqa: ARG002
        """The tokens before the first doubtful one, as many as are allowed."""
        sure = next((i for i, each in enumerate(confidences) if each < self.threshold), len(confidences))
        k = max(k for k in self.ks if k <= sure)
        return Weighed(k=k, worth=float(k))

    def promise(self, drafter: str, n_unread: int) -> float:  # noqa: ARG002
        """Something, but less than any lookup."""
        return 0.5

    def after_run(self, drafter: str, run: Proposal, n_unread: int) -> Judge | None:  # noqa: ARG002
        """One for what may still follow the run; None where nothing may."""
        n = len(run.tokens)
        if n >= self.ks[-1]:
            return None
        return ThresholdJudge(threshold=self.threshold, ks=[k - n for k in self.ks if k >= n])

    def takes(self, drafter: str, confidences: Sequence[float]) -> bool:  # noqa: ARG002
        """Whether the last row is sure enough, or the draft may not end before it."""
        return confidences[-1] >= self.threshold or len(confidences) - 1 not in self.ks

    def goes_on(self, drafter: str, confidences: Sequence[float]) -> bool:  # noqa: ARG002
        """Yes: the next row decides."""
        return True


class ThresholdSchedule(Schedule):
    """Drafts up to `k` tokens, and ends before the first one less probable than `threshold`.

    Raises
    ------
    InputError
        If k or the threshold is outside its range.
    """

    def __init__(self, k: int = 8, threshold: float = 0.7) -> None:
        check_whole("k", k, 0, MAX_K)
        check_number("threshold", threshold, 0, 1, "a probability in 0..1")
        self._k, self._threshold = k, threshold

    @property
    def name(self) -> str:
        """Such as "threshold 0.7, k<=8"."""
        return f"threshold {self._threshold:g}, k<={self._k}"

    @property
    def longest(self) -> int:
        """The most that was asked for."""
        return self._k

    def plan(self, slot: int) -> int:  # noqa: ARG002
        """The longest draft."""
        return self._k

    def judge(self, slot: int, state: RoundState) -> Judge:  # noqa: ARG002
        """One that compares with the threshold."""
        return ThresholdJudge(threshold=self._threshold, ks=state.ks)
