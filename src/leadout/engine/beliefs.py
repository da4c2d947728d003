"""What is known of drafters in one request: how often they are right, and when drafting with them goes on.

Starts from what lasts (`Memory`), follows the request's own text, and ends with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadout.core.cost import DraftPolicy, draft_policy
from leadout.core.estimate import KEEP, AcceptanceModel
from leadout.core.values import Proposal
from leadout.drafters.base import Untried
from leadout.engine.judge import SUREST
from leadout.engine.memory import Confidences, Memory
from leadout.engine.outlook import Course, Mood, Outlook

_KEEP_LONG = 0.9995  # of what lasts, per verdict
_NEW_TEXT = 0.2  # how far a new request opens what is known
_STALE_RATE = 0.03
_N_STALE_ROUNDS = 16
_N_SUREST = 2  # of the typical rows: those that daring goes by
_N_ASKED, _N_RESTING = 8, 16  # rounds: asked in each at first; a refusal later holds for fifteen more


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """A policy, and what it was made for."""

    policy: DraftPolicy
    ks: Sequence[int]
    n_active: int
    rate: float
    n_learned: int
    n_rounds: int


class RequestBeliefs:
    """Acceptance of each drafter, and the policy of each draft model, at this moment of a request.

    Parameters
    ----------
    memory : Memory
        Where these start from, and what verdicts are added to.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._acceptance: dict[str, AcceptanceModel] = {}
        self._learned_at: dict[str, int] = {}  # answer length when news of a drafter came last
        self._was_asked: set[str] = set()  # draft models, in this text
        self._missed: dict[str, float] = {}
        self._resting: dict[str, tuple[int, DraftPolicy]] = {}  # up to which round
        self._policies: dict[tuple[str, Mood], _Policy] = {}
        self._n_learned: dict[str, int] = {}
        self._n_rounds = self._n_tokens = 0

    def acceptance(self, drafter: str, mood: Mood) -> AcceptanceModel:
        """Of this drafter's tokens; the hopeful one is as unsure as time without news makes it."""
        model = self._acceptance.get(drafter)
        if model is None:
            model = self._memory.acceptance_of(drafter).widened(_NEW_TEXT)
            self._acceptance[drafter] = model
        if mood == "fair":
            return model
        return model.widened(1 - KEEP ** (self._n_tokens - self._learned_at.get(drafter, 0)))

    def chances(self, proposal: Proposal, position: int) -> tuple[float, ...]:
        """Of each token to stand, given that all before it did."""
        return tuple(
            self.acceptance(proposal.drafter_of(i), "fair").predict(each, i, position).mean
            for i, each in enumerate(proposal.confidences)
        )

    def is_new_to(self, drafter: str) -> bool:
        """Whether this model was not asked yet in this text."""
        return drafter not in self._was_asked

    def policy(self, drafter: str, outlook: Outlook, mood: Mood) -> DraftPolicy:
        """The policy for what is known now; one that was made for nearly the same is used again."""
        ks = outlook.drafts_within()
        made = self._policies.get((drafter, mood))
        if made is None or not self._still_holds(made, drafter, outlook, ks):
            chances = self._typical_chances(drafter, outlook.state.position, outlook.state.ks[-1], mood)
            made = _Policy(
                policy=draft_policy(chances, outlook.costs, outlook.rate, ks=ks),
                ks=ks,
                n_active=outlook.state.n_active,
                rate=outlook.rate,
                n_learned=self._n_learned.get(drafter, 0),
                n_rounds=self._n_rounds,
            )
            self._policies[drafter, mood] = made
        return made.policy

    def resting(self, drafter: str) -> DraftPolicy | None:
        """The policy by which this model was refused a moment ago, while it is not asked anew."""
        until, policy = self._resting.get(drafter, (0, None))
        return policy if self._n_rounds < until else None

    def missed(self, drafter: str) -> float:
        """Tokens that this model might have gained in the rounds so far, had it read the text before."""
        return self._missed.get(drafter, 0.0)

    def saw_course(self, drafter: str, course: Course) -> None:
        """A draft model has shown how sure it is, or was not asked."""
        self._missed[drafter] = self.missed(drafter) + course.missed
        if course.worth <= 0 and self._n_rounds >= _N_ASKED and self.resting(drafter) is None:
            self._resting[drafter] = (self._n_rounds + _N_RESTING, course.policy)
        if course.n_rows:
            self._was_asked.add(drafter)
        for offset, confidence in enumerate(course.confidences):
            self._memory.confidences_of(drafter).saw(course.n_given + offset, confidence)

    def saw_verdict(self, proposal: Proposal, position: int, accepted: int) -> None:
        """So many tokens of a proposal at this position of the answer stood."""
        for offset, confidence in enumerate(proposal.confidences[: accepted + 1]):
            self._learn(proposal.drafter_of(offset), confidence, offset, position, stood=offset < accepted)

    def saw_untried(self, outcome: Untried) -> None:
        """A lookup's proposal that was not verified has shown what it was worth."""
        for offset in range(outcome.verified, outcome.stood + outcome.failed):
            confidence, stood = outcome.confidences[offset], offset < outcome.stood
            self._learn(outcome.drafter, confidence, offset, outcome.position, stood=stood)

    def _learn(self, drafter: str, confidence: float, offset: int, position: int, *, stood: bool) -> None:
        own, lasting = self.acceptance(drafter, "fair"), self._memory.acceptance_of(drafter)
        self._acceptance[drafter] = own.learn(confidence, offset, position, stood)
        self._memory.acceptance[drafter] = lasting.learn(confidence, offset, position, stood, keep=_KEEP_LONG)
        self._learned_at[drafter] = self._n_tokens
        self._n_learned[drafter] = self._n_learned.get(drafter, 0) + 1

    def round_over(self, n_tokens: int) -> None:
        """One more round, after which the answer has this many tokens."""
        self._n_rounds += 1
        self._n_tokens = n_tokens

    def _still_holds(self, made: _Policy, drafter: str, outlook: Outlook, ks: Sequence[int]) -> bool:
        n_news = self._n_learned.get(drafter, 0) - made.n_learned
        return (
            made.ks == ks
            and made.n_active == outlook.state.n_active
            and abs(outlook.rate / made.rate - 1) < _STALE_RATE
            and n_news <= made.n_learned // 8
            and self._n_rounds - made.n_rounds < _N_STALE_ROUNDS
        )

    def _typical_chances(self, drafter: str, position: int, n: int, mood: Mood) -> NDArray[np.float64]:
        """Chances of rows that stand for an equal share each, shape (n, Q)."""
        model = self.acceptance(drafter, mood)
        seen = self._memory.confidences.get(drafter) or Confidences()
        rows = [seen.typical(offset)[-_N_SUREST if mood == "daring" else 0 :] for offset in (0, 1)]
        means, sds = model.predict_many(np.array([rows[min(offset, 1)] for offset in range(n)]), position)
        return means if mood == "fair" else np.minimum(SUREST, means + sds)


def drafting(courses: Iterable[Course]) -> tuple[int, int]:
    """Passes that draft models made together in a round, and tokens they read beyond one in each."""
    worked = [course for course in courses if course.n_rows]
    n_passes = max((course.n_rows for course in worked), default=0)
    return n_passes, sum(course.n_rows + course.n_unread - 1 for course in worked) - n_passes
