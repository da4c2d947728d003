"""The judge of the paced schedule: what to draft in one round of one slot, decided from an `Outlook`.

Pure: it reads no clock and draws nothing, and asked the same twice it answers the same, unless it learned
something in between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Protocol

from leadout.core.cost import DraftPolicy, best_prefix
from leadout.core.estimate import AcceptanceModel, Prediction
from leadout.core.values import Proposal
from leadout.drafters.base import Judge, Untried, Weighed
from leadout.engine.outlook import Course, Mood, Outlook, Refusal

_BARELY = 1e-9  # the worth of what is tried only to learn: less than of anything that pays
_HOPELESS = 0.01  # a chance below which no more tokens of a lookup are looked at
SUREST = 0.999
_STAKED, _STAKED_IN_DOUBT = 0.04, 0.3
"""What a lookup's tokens must gain beyond their cost, as a share of it: chances err, the more the less sure
the first token is. Drafts that gain nothing on average would only make answers vary."""

_REPAID = 5.0  # times that a dearer trial in a new text must repay its cost, if hopes come true
_BACKLOG = 16  # unread tokens that make it dear to ask a draft model how it finds a text
_PATIENCE = 0.4  # of what reading a backlog costs, and up to 1 more for a large one
_LARGEST_SHARE = 0.25  # of the time that is left; a larger backlog is never read


class Beliefs(Protocol):
    """What the schedule knows of drafters at this moment."""

    def acceptance(self, drafter: str, mood: Mood) -> AcceptanceModel:
        """Of this drafter's tokens; the hopeful one is as unsure as time without news makes it."""

    def is_new_to(self, drafter: str) -> bool:
        """Whether this model was not asked yet in this text."""

    def policy(self, drafter: str, outlook: Outlook, mood: Mood) -> DraftPolicy:
        """When drafting with this model goes on."""

    def saw_untried(self, outcome: Untried) -> None:
        """A lookup's proposal that was not verified has shown what it was worth."""

    def resting(self, drafter: str) -> DraftPolicy | None:
        """The policy by which this model was refused a moment ago, while it is not asked anew."""

    def missed(self, drafter: str) -> float:
        """Tokens that this model might have gained in the rounds so far, had it read the text before."""


@dataclass(slots=True)
class PacedJudge:
    """Takes what is predicted to pay, and now and then, within a budget, what might.

    Parameters
    ----------
    outlook : Outlook
    beliefs : Beliefs
    """

    outlook: Outlook
    beliefs: Beliefs
    courses: dict[str, Course] = field(default_factory=dict)
    refusal: Refusal = field(default_factory=Refusal)
    lookup_worth: float = 0.0
    forgone_s: float = 0.0

    def learns(self, outcome: Untried) -> None:
        """What lookups are worth; and what was forgone because no more might be lost."""
        self.forgone_s += self._forgone_s(outcome)
        self.beliefs.saw_untried(outcome)

    @property
    def wants_confidences(self) -> bool:
        """Yes."""
        return True

    def weigh(self, drafter: str, confidences: Sequence[float]) -> Weighed:
        """The prefix with the best predicted worth; none only to learn, as what it is worth shows anyway."""
        chances = self._chances(drafter, confidences)
        if not chances:
            return Weighed(k=0, worth=0.0)
        allowed = self.outlook.lookups_within(1 - chances[0])
        k, worth = self._best(chances, allowed)
        if worth > self.outlook.margin:
            self.lookup_worth = max(self.lookup_worth, worth)
            return Weighed(k=k, worth=worth)
        self._refuse(drafter, chances, allowed, draft_s=0.0)
        return Weighed(k=0, worth=0.0)

    def promise(self, drafter: str, n_unread: int) -> float:
        """Worth of drafting by the best policy, less the share of reading that this round has to earn."""
        course = self.courses.get(drafter)
        if course is None:
            course = self._course(drafter, n_unread)
            self.courses[drafter] = course
        return course.worth

    def after_run(self, drafter: str, run: Proposal, n_unread: int) -> Judge | None:
        """Itself, where one more pass is worth more than it costs although the run may not stand."""
        policy = self.beliefs.policy(drafter, self.outlook, "fair")
        n, chance = len(run.tokens), math.prod(self._chances(run.drafter, run.confidences))
        gain = policy.gain(n, chance)
        worth = gain - self._reading(n_unread, gain)
        if worth <= self.outlook.margin or not self._may_read(drafter, n_unread):
            return None
        self.courses[drafter] = Course(policy, worth, "fair", n_unread, chance=chance, n_given=n)
        return self

    def takes(self, drafter: str, confidences: Sequence[float]) -> bool:
        """By the policy, from the rows seen so far."""
        course = self._followed(drafter, confidences)
        return course.policy.takes(course.n_given + len(confidences) - 1, course.chance)

    def goes_on(self, drafter: str, confidences: Sequence[float]) -> bool:
        """By the policy, from the rows seen so far."""
        course = self._followed(drafter, confidences)
        return course.policy.goes_on(course.n_given + len(confidences), course.chance)

    def _forgone_s(self, outcome: Untried) -> float:
        """Seconds that a draft would have gained which risked too much to be made; negative if it lost."""
        chances, ks = self._chances(outcome.drafter, outcome.confidences), self.outlook.state.ks
        allowed = self.outlook.lookups_within(1 - chances[0])
        k, worth = self._best(chances, ks)
        if k in allowed or worth <= self.outlook.margin:
            return 0.0
        return self._gained_s(k, outcome.stood) - self._gained_s(outcome.verified, outcome.stood)

    def _gained_s(self, k: int, stood: int) -> float:
        return min(k, stood) * self.outlook.costs.plain_s() - self._extra_s(k)

    def _chances(self, drafter: str, confidences: Sequence[float]) -> list[float]:
        """Chances of a lookup's tokens, to where it becomes hopeless."""
        model = self.beliefs.acceptance(drafter, "fair")
        chances: list[float] = []
        together, position = 1.0, self.outlook.state.position
        for offset, confidence in enumerate(confidences[: self.outlook.state.ks[-1]]):
            chance = model.predict(confidence, offset, position).mean
            chances.append(chance)
            together *= chance
            if together < _HOPELESS or (offset == 0 and self._most(chance) <= self.outlook.margin):
                break
        return chances

    def _most(self, chance: float) -> float:
        """What a proposal would be worth whose first token stands with this chance, and all others surely."""
        outlook = self.outlook
        return max(k * chance - outlook.rate * outlook.costs.extra_s(k) for k in outlook.state.ks)

    def _best(self, chances: Sequence[float], ks: Sequence[int]) -> tuple[int, float]:
        staked = _STAKED + _STAKED_IN_DOUBT * (1 - chances[0])
        return best_prefix(chances, self.outlook.costs, (1 + staked) * self.outlook.rate, ks=ks)

    def _course(self, drafter: str, n_unread: int) -> Course:
        outlook = self.outlook
        rested = self.beliefs.resting(drafter)
        if rested is not None:
            return self._refused(rested, n_unread)
        policy = self.beliefs.policy(drafter, outlook, "fair")
        worth = policy.worth - self._reading(n_unread, policy.worth)
        if worth > outlook.margin and self._may_read(drafter, n_unread):
            return Course(policy, worth, "fair", n_unread)
        self._refuse_model(drafter, policy, n_unread if policy.worth > 0 else 0)
        return self._trial(drafter, n_unread) or self._refused(policy, n_unread)

    def _trial(self, drafter: str, n_unread: int) -> Course | None:
        """A draft only to learn, where that would pay if hopes came true.

        Texts differ: where the last ones left a model unsure, the next may be code that it knows by heart. So
        one that it has not seen may be dearer to try, if much might be gained in it.
        """
        outlook = self.outlook
        cost_s = outlook.costs.drafting_s(1, n_unread) + self._extra_s(1)
        if cost_s <= outlook.budget_s:
            policy = self.beliefs.policy(drafter, outlook, "hopeful")
            if policy.worth - self._reading(n_unread, policy.worth) > outlook.margin:
                return Course(policy, _BARELY, "hopeful", n_unread)
        if cost_s <= outlook.daring_budget_s and n_unread > _BACKLOG and self.beliefs.is_new_to(drafter):
            policy = self.beliefs.policy(drafter, outlook, "daring")
            if self._promised_s(policy, n_unread) > _REPAID * cost_s:
                return Course(policy, _BARELY, "daring", n_unread)
        return None

    def _promised_s(self, policy: DraftPolicy, n_unread: int) -> float:
        """Seconds that the rest of the answer would gain if all rounds were as good as this policy hopes."""
        outlook = self.outlook
        chances = policy.typical[: outlook.drafts_within()[-1]]
        n_tokens: float = 1 + sum(accumulate(chances, mul))
        gain_s = policy.worth / outlook.rate * outlook.n_left / n_tokens
        return gain_s - self._backlog_s(n_unread)

    def _refused(self, policy: DraftPolicy, n_unread: int) -> Course:
        missed = max(0.0, policy.worth - max(self.lookup_worth, self.outlook.margin))
        return Course(policy, 0.0, "fair", n_unread, missed=missed)

    def _may_read(self, drafter: str, n_unread: int) -> bool:
        """Whether to read a backlog that costs more than may be lost, or while a lookup is at hand.

        Not before as much was missed for not having read it as its cost calls for: what the lookups leave to
        gain shows in the first rounds alone, and answers may end soon. And never what would take a large part
        of the time that is left, which nothing that this text has shown vouches for.
        """
        outlook = self.outlook
        backlog_s = self._backlog_s(n_unread)
        can_wait = self.lookup_worth > 0 and n_unread > _BACKLOG
        if backlog_s <= outlook.allowance_s and not can_wait:
            return True
        left_s = outlook.n_left / outlook.tokens_per_round * outlook.costs.plain_s()
        size = backlog_s / (_LARGEST_SHARE * left_s)
        return size <= 1 and self.beliefs.missed(drafter) >= (_PATIENCE + size) * outlook.rate * backlog_s

    def _reading(self, n_unread: int, worth: float) -> float:
        """Tokens lost to reading: all of what every round reads, and this round's share of a backlog.

        The more a round is worth the fewer there will be to share it.
        """
        n_usual = min(1, n_unread - 1)
        n_rounds = self.outlook.n_left / max(self.outlook.tokens_per_round, 1 + worth)
        n_charged = n_usual + (n_unread - 1 - n_usual) / max(1.0, n_rounds)
        return self.outlook.rate * self.outlook.costs.read_s * n_charged

    def _backlog_s(self, n_unread: int) -> float:
        return (n_unread - 1) * self.outlook.costs.read_s

    def _extra_s(self, k: int) -> float:
        return self.outlook.costs.extra_s(k)

    def _followed(self, drafter: str, confidences: Sequence[float]) -> Course:
        """The drafter's course, brought up to these rows."""
        self.promise(drafter, 1)
        course = self.courses[drafter]
        if course.n_rows < len(confidences):
            model = self.beliefs.acceptance(drafter, course.mood)
            for offset in range(course.n_rows, len(confidences)):
                place = course.n_given + offset
                found = model.predict(confidences[offset], place, self.outlook.state.position)
                course.chance *= chance_of(found, course.mood)
            course.confidences = list(confidences)
        return course

    def _refuse(self, drafter: str, chances: Sequence[float], allowed: Sequence[int], draft_s: float) -> None:
        """Remember the best speed that was not good enough."""
        outlook = self.outlook
        plain_s = outlook.costs.plain_s()
        expected, together = 1.0, 1.0
        for k, chance in enumerate(chances, start=1):
            together *= chance
            expected += together
            if k in outlook.state.ks:
                speed = expected * plain_s / (plain_s + k * draft_s + self._extra_s(k))
                if speed > self.refusal.speed:
                    self.refusal = Refusal(speed, drafter, is_risky=k not in allowed)

    def _refuse_model(self, drafter: str, policy: DraftPolicy, n_to_read: int) -> None:
        self._refuse(drafter, policy.typical, self.outlook.drafts_within(), self.outlook.costs.draft_s)
        if n_to_read:
            self.refusal = Refusal(max(1.0, self.refusal.speed), drafter, n_to_read)


def chance_of(found: Prediction, mood: Mood) -> float:
    """The chance to reckon with."""
    return found.mean if mood == "fair" else min(SUREST, found.mean + found.sd)
