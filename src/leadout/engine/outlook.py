"""What the paced schedule decides a round from, and what it notes of one: numbers, no rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from leadout.core.cost import CostTable, DraftPolicy
from leadout.engine.schedule import RoundState

Mood = Literal["fair", "hopeful", "daring"]
"""Which chances to reckon with: the expected ones, or those a standard deviation above; in a text that a
draft model was not asked in, if need be, those of the rows that it is surest of."""

_AT_WORST, _PASSES_AT_WORST = 2.0, 3.0
"""What a lookup may lose when none of it stands: so many times what is allowed on average, and in a short
answer, where that is little, so many plain passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a round is decided from.

    Parameters
    ----------
    state : RoundState
    costs : CostTable
    rate : float
        Tokens per second that a round has to match: the best that is being reached, plain decoding at least.
    n_left : float
        Tokens to come, over which a draft model's reading pays off.
    tokens_per_round : float
        Of late.
    budget_s : float
        Seconds that may be lost now on drafts that are predicted to lose, for what they teach.
    daring_budget_s : float
        The same where much might be gained in a new text.
    allowance_s : float
        Seconds that this round may lose; what was gained before is allowed to be lost again.
    draft_allowance_s : float
        The same for a draft of a model that has read the text.
    margin : float
        Tokens that a draft must be predicted to gain.
    """

    state: RoundState
    costs: CostTable
    rate: float
    n_left: float
    tokens_per_round: float
    budget_s: float
    daring_budget_s: float
    allowance_s: float
    draft_allowance_s: float
    margin: float

    def lookups_within(self, doubt: float) -> Sequence[int]:
        """Lengths of a lookup's proposal that may not lose more than is allowed.

        What it costs when none of it stands is weighed with the chance of that, `doubt`, and has a limit of
        its own.
        """
        most_s = max(_AT_WORST * self.allowance_s, _PASSES_AT_WORST * self.costs.plain_s())
        return self._within(self.allowance_s, 0.0, doubt, most_s)

    def drafts_within(self) -> Sequence[int]:
        """Lengths of a model's draft that may not lose more than is allowed."""
        return self._within(self.draft_allowance_s, self.costs.draft_s, 1.0, math.inf)

    def _within(self, allowance_s: float, draft_s: float, doubt: float, most_s: float) -> Sequence[int]:
        def fits(k: int) -> bool:
            lost_s = k * draft_s + self.costs.extra_s(k)
            return doubt * lost_s <= allowance_s and lost_s <= most_s

        ks = self.state.ks
        return ks if fits(ks[-1]) else [k for k in ks if k == 0 or fits(k)]


@dataclass(slots=True)
class Course:
    """A draft model at work in this round: by which policy, and how far it is.

    Parameters
    ----------
    worth : float
        What `promise` answered.
    mood : Mood
        By which it goes on.
    n_unread : int
        Tokens it had to read first.
    confidences : list of float
        Of the rows it has shown, one per pass.
    chance : float
        That all tokens of these rows stand, and those given before them.
    n_given : int
        Tokens of a lookup's run that it goes on after.
    missed : float
        Tokens that it might have gained in this round, had it read the text before.
    """

    policy: DraftPolicy
    worth: float
    mood: Mood
    n_unread: int
    confidences: list[float] = field(default_factory=list)
    chance: float = 1.0
    n_given: int = 0
    missed: float = 0.0

    @property
    def is_trial(self) -> bool:
        """Whether it is made only to learn."""
        return self.mood != "fair"

    @property
    def n_rows(self) -> int:
        """Passes that it made."""
        return len(self.confidences)


@dataclass(slots=True)
class Refusal:
    """The best that was turned down: its speed as a share of plain decoding's, and whose it was.

    Parameters
    ----------
    speed : float
    drafter : str
    n_to_read : int
        Tokens that this drafter would have to read first, where that was why.
    is_risky : bool
        True where a draft that fails would lose more than is allowed.
    """

    speed: float = 0.0
    drafter: str = ""
    n_to_read: int = 0
    is_risky: bool = False

    @property
    def reason(self) -> str:
        """In words."""
        if self.n_to_read:
            return (
                f"reading {self.n_to_read} tokens with the draft {self.drafter} would cost more than it is "
                "predicted to gain"
            )
        if round(self.speed, 2) >= 1 and self.is_risky:
            return (
                f"drafting is predicted to give {self.speed:.2f}x here, but a draft that fails would lose "
                "more than an answer may lose"
            )
        if round(self.speed, 2) >= 1:
            return f"drafting is predicted to gain too little here to be worth the risk ({self.speed:.2f}x)"
        return f"drafting is predicted to give {self.speed:.2f}x here"


def expected_left(n_answered: int, n_left: int, usual_length: float) -> float:
    """Tokens that an answer is expected to grow by yet.

    Up to the usual length; beyond it, as often with lengths that vary by orders of magnitude, half of what
    there is already.
    """
    return min(float(n_left), max(usual_length - n_answered, n_answered / 2, math.sqrt(usual_length)))
