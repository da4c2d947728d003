"""The schedule that earns its keep: it drafts what is predicted to pay on this machine, and else nothing.

Costs and acceptance are learned from every round. What was learned lasts; what a request was like does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadout.checks import check_number, check_whole
from leadout.core.cost import DraftPolicy, draft_policy
from leadout.core.estimate import KEEP, AcceptanceModel
from leadout.core.values import Proposal
from leadout.drafters.base import Judge, Willing
from leadout.engine.events import Forecast, Round
from leadout.engine.judge import Mood, Outlook, PacedJudge, Refusal, chance_of, expected_left
from leadout.engine.memory import Confidences, Memory
from leadout.engine.schedule import MAX_K, Ending, RoundState

LONGEST_DRAFT = 15
EXPLORATION = 0.02
_LOSS = 0.02  # share of the time that drafting may lose in a request

_CREDIT = 0.1
_MARGIN = 0.02  # tokens: as little is within the errors of estimates
_MARGIN_UNSEEN = 0.15  # while no plain round was seen of late, which would tell what drafting really gains
_N_UNSEEN = 16
_KEEP_LONG = 0.9995  # of what lasts, per verdict
_NEW_TEXT = 0.2  # how far a new request opens what is known
_RATE_KEEP = 0.97  # per round
_N_PLAIN = 8.0  # plain rounds that the rate starts from
_N_QUIET = 16  # tokens without a draft after which drafting is off
_STALE_RATE = 0.03
_N_STALE_ROUNDS = 16


@dataclass(slots=True)
class _Policy:
    """A policy, and what it was made for."""

    policy: DraftPolicy
    ks: Sequence[int]
    n_active: int
    rate: float
    n_learned: int
    n_rounds: int


@dataclass(slots=True)
class _Request:
    """What one request was like so far."""

    acceptance: dict[str, AcceptanceModel] = field(default_factory=dict)
    learned_at: dict[str, int] = field(default_factory=dict)  # answer length when news of a drafter came last
    policies: dict[tuple[str, Mood], _Policy] = field(default_factory=dict)
    n_learned: int = 0
    n_rounds: int = 0
    n_tokens: int = 0
    n_when_drafted: int = 0
    n_since_plain: int = 0
    tokens: float = 0.0  # of late, and the seconds they took
    seconds: float = 0.0
    spent_s: float = 0.0
    lost_s: float = 0.0  # by drafting, against plain decoding; negative when it gained
    judge: PacedJudge | None = None
    refusal: Refusal = field(default_factory=Refusal)
    proposal: Proposal | None = None
    forecast: Forecast | None = None


class PacedSchedule:
    """Picks by predicted tokens per second, plain decoding included.

    Parameters
    ----------
    memory : Memory or None
        What is known of this pair of models; None starts with nothing.
    longest : int in 0..MAX_K
        Most tokens of a draft.
    exploration : float in 0..1
        Share of the time that may be lost on drafts that are predicted to lose, for what they teach.
    note : str
        Where what is known comes from, for reports.
    save : callable or None
        Given the memory when the schedule is closed.

    Raises
    ------
    InputError
        If a number is outside its range.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        longest: int = LONGEST_DRAFT,
        exploration: float = EXPLORATION,
        note: str = "",
        save: Callable[[Memory], None] | None = None,
    ) -> None:
        check_whole("longest", longest, 0, MAX_K)
        check_number("exploration", exploration, 0, 1, "a share in 0..1")
        self._memory = Memory() if memory is None else memory
        self._longest, self._exploration, self._save = longest, exploration, save
        self._note = note
        self._requests: dict[int, _Request] = {}
        self._spent_s = self._explored_s = 0.0
        self._credit_s = 0.0  # a share of what drafting gained in requests of late

    @property
    def name(self) -> str:
        """Such as "auto (costs measured in 1.9 s)"."""
        return f"auto ({self._note})" if self._note else "auto"

    @property
    def memory(self) -> Memory:
        """What was learned so far."""
        return self._memory

    @property
    def explored(self) -> float:
        """Share of the time that was lost on purpose, to learn."""
        return self._explored_s / self._spent_s if self._spent_s else 0.0

    @property
    def longest(self) -> int:
        """The most that was asked for."""
        return self._longest

    def begin(self, slot: int) -> None:
        """Forget what the last request in `slot` was like."""
        self._requests[slot] = _Request()

    def plan(self, slot: int) -> int:  # noqa: ARG002
        """The longest draft; the judge decides. Nothing before a plain pass was measured."""
        return self._longest if self._memory.profile.is_known else 0

    def judge(self, slot: int, state: RoundState) -> Judge:
        """A judge with the costs, the rate and the budget of this moment."""
        if not self._memory.profile.is_known:
            return Willing()
        request, costs = self._requests[slot], self._memory.profile.costs
        plain_s = costs.plain_s(state.n_active) / state.n_active
        left = expected_left(state.position, state.n_left, self._memory.usual_length)
        allowance_s = _LOSS * (request.spent_s + left * plain_s) + self._credit_s - request.lost_s
        budget_s = self._exploration * (self._spent_s + left * plain_s) - self._explored_s
        outlook = Outlook(
            state=state,
            costs=costs,
            rate=self._rate(request, state.n_active),
            n_rounds_left=left / max(1.0, request.tokens / max(1.0, request.n_rounds, _N_PLAIN)),
            allowance_s=allowance_s,
            budget_s=min(budget_s, allowance_s),
            margin=_MARGIN if request.n_since_plain < _N_UNSEEN else _MARGIN_UNSEEN,
        )
        request.judge = PacedJudge(outlook, _Beliefs(request, self._memory))
        return request.judge

    def forecast(self, slot: int, proposal: Proposal) -> Forecast | None:
        """Chances of the tokens, and the seconds of the round with and without them."""
        request, profile = self._requests[slot], self._memory.profile
        request.proposal, request.forecast = proposal, None
        if not profile.is_known:
            return None
        judge, costs = request.judge, profile.costs
        n_active = 1 if judge is None else judge.outlook.state.n_active
        plain_s = costs.plain_s(n_active)
        if judge is None or not proposal.tokens:
            drafting_s = 0.0 if judge is None else _drafting_s(judge)
            request.forecast = Forecast(seconds=plain_s + drafting_s, plain_s=plain_s)
            return request.forecast
        beliefs, position = _Beliefs(request, self._memory), judge.outlook.state.position
        chances = tuple(
            beliefs.acceptance(proposal.drafter_of(i), "fair").predict(each, i, position).mean
            for i, each in enumerate(proposal.confidences)
        )
        seconds = plain_s + costs.extra_s(len(proposal.tokens), n_active) + _drafting_s(judge)
        request.forecast = Forecast(chances=chances, seconds=seconds, plain_s=plain_s)
        return request.forecast

    def observe(self, slot: int, outcome: Round) -> None:
        """Learn costs and acceptance, and keep the books."""
        request = self._requests[slot]
        judge, proposal = request.judge, request.proposal
        n_active = 1 if judge is None else judge.outlook.state.n_active
        self._learn_costs(outcome, judge)
        spent_s = (outcome.draft_s + outcome.verify_s + outcome.other_s) / n_active
        self._spent_s += spent_s
        request.spent_s += spent_s
        if judge is not None:
            self._charge(judge, outcome)
            if proposal is not None:
                self._learn_verdict(request, judge, proposal, outcome.accepted)
            request.refusal = judge.refusal
        if request.forecast is not None:
            request.tokens = _RATE_KEEP * request.tokens + outcome.accepted + 1
            request.seconds = _RATE_KEEP * request.seconds + request.forecast.seconds
            request.lost_s += _lost_s(request.forecast, judge, outcome, n_active)
        request.n_rounds += 1
        request.n_tokens += outcome.emitted
        request.n_since_plain += 1
        if outcome.drafted:
            request.n_when_drafted = request.n_tokens
        else:
            request.n_since_plain = 0
        request.judge = request.proposal = request.forecast = None

    def end(self, slot: int) -> Ending | None:
        """Why the last tokens were decoded plainly, if they were because nothing was predicted to pay."""
        request = self._requests.pop(slot, None)
        if request is None or not request.n_rounds:
            return None
        self._memory.answered(request.n_tokens)
        self._credit_s = max(0.0, self._credit_s / 2 - _CREDIT * request.lost_s)
        refusal = request.refusal
        if not refusal.drafter or request.n_tokens - request.n_when_drafted < _N_QUIET:
            return None
        if refusal.n_to_read:
            what = f"with the draft {refusal.drafter}"
            why = f"reading {refusal.n_to_read} tokens {what} would cost more than it is predicted to gain"
        else:
            why = f"drafting is predicted to give {refusal.speed:.2f}x here"
        return Ending(n_tokens=request.n_when_drafted, reason=why)

    def close(self) -> None:
        """Hand over what was learned."""
        if self._save is not None and self._memory.profile.is_known:
            self._save(self._memory)

    def _rate(self, request: _Request, n_active: int) -> float:
        """Tokens per second of the whole pass that a round has to match."""
        plain_s = self._memory.profile.costs.plain_s(n_active)
        tokens = request.tokens + _N_PLAIN * _RATE_KEEP**request.n_rounds
        seconds = request.seconds + _N_PLAIN * _RATE_KEEP**request.n_rounds * plain_s
        return n_active * max(1 / plain_s, tokens / seconds)

    def _learn_costs(self, outcome: Round, judge: PacedJudge | None) -> None:
        profile = self._memory.profile
        if outcome.width:
            profile.saw_verify(outcome.width, outcome.verify_s)
            profile.saw_other(outcome.other_s)
        if judge is None or judge.outlook.state.n_active > 1:
            return  # slots that draft together share their passes
        worked = [course for course in judge.courses.values() if course.n_rows]
        if len(worked) == 1:
            profile.saw_draft(worked[0].n_rows, worked[0].n_unread, outcome.draft_s)

    def _charge(self, judge: PacedJudge, outcome: Round) -> None:
        """Count what was tried only to learn against the budget."""
        lookup = outcome.drafter in judge.tried and outcome.drafted
        models = [course for course in judge.courses.values() if course.mood == "hopeful" and course.n_rows]
        if lookup or models:
            outlook = judge.outlook
            extra_s = outlook.costs.extra_s(outcome.drafted, outlook.state.n_active)
            gained_s = outcome.accepted * outlook.costs.plain_s(outlook.state.n_active)
            lost_s = extra_s + (outcome.draft_s if models else 0.0) - gained_s
            self._explored_s = max(0.0, self._explored_s + lost_s)

    def _learn_verdict(self, request: _Request, judge: PacedJudge, proposal: Proposal, accepted: int) -> None:
        memory = self._memory
        for drafter, course in judge.courses.items():
            if course.n_rows:
                seen = memory.confidences.setdefault(drafter, Confidences())
                for offset, confidence in enumerate(course.confidences):
                    seen.saw(course.n_given + offset, confidence)
        if not proposal.confidences:
            return
        position = judge.outlook.state.position
        for offset, confidence in enumerate(proposal.confidences[: accepted + 1]):
            name, stood = proposal.drafter_of(offset), offset < accepted
            own = _Beliefs(request, memory).acceptance(name, "fair")
            lasting = memory.acceptance.get(name, AcceptanceModel())
            request.acceptance[name] = own.learn(confidence, offset, position, stood)
            memory.acceptance[name] = lasting.learn(confidence, offset, position, stood, keep=_KEEP_LONG)
            request.learned_at[name] = request.n_tokens
            request.n_learned += 1


@dataclass(frozen=True, slots=True)
class _Beliefs:
    """What is known of drafters in one request."""

    request: _Request
    memory: Memory

    def acceptance(self, drafter: str, mood: Mood) -> AcceptanceModel:
        """The request's own model, which starts from what lasts."""
        request = self.request
        model = request.acceptance.get(drafter)
        if model is None:
            model = self.memory.acceptance.get(drafter, AcceptanceModel()).widened(_NEW_TEXT)
            request.acceptance[drafter] = model
        if mood != "hopeful":
            return model
        return model.widened(1 - KEEP ** (request.n_tokens - request.learned_at.get(drafter, 0)))

    def policy(self, drafter: str, outlook: Outlook, mood: Mood) -> DraftPolicy:
        """The policy for what is known now; one that was made for nearly the same is used again."""
        request, key, n_active = self.request, (drafter, mood), outlook.state.n_active
        ks = outlook.within(outlook.costs.draft_s)
        made = request.policies.get(key)
        if made is None or not self._still_holds(made, outlook, ks):
            chances = self._chances(drafter, outlook.state.position, outlook.state.ks[-1], mood)
            policy = draft_policy(chances, outlook.costs, outlook.rate, ks=ks, n_active=n_active)
            made = _Policy(policy, ks, n_active, outlook.rate, request.n_learned, request.n_rounds)
            request.policies[key] = made
        return made.policy

    def _still_holds(self, made: _Policy, outlook: Outlook, ks: Sequence[int]) -> bool:
        request = self.request
        return (
            made.ks == ks
            and made.n_active == outlook.state.n_active
            and abs(outlook.rate / made.rate - 1) < _STALE_RATE
            and request.n_learned - made.n_learned <= made.n_learned // 8
            and request.n_rounds - made.n_rounds < _N_STALE_ROUNDS
        )

    def _chances(self, drafter: str, position: int, n: int, mood: Mood) -> NDArray[np.float64]:
        """Chances of rows that stand for an equal share each, shape (n, Q)."""
        model = self.acceptance(drafter, mood)
        seen = self.memory.confidences.get(drafter) or Confidences()
        rows = [seen.typical(0), seen.typical(1)]
        return np.array(
            [
                [chance_of(model.predict(each, offset, position), mood) for each in rows[min(offset, 1)]]
                for offset in range(n)
            ]
        ).reshape(n, len(rows[0]))


def _drafting_s(judge: PacedJudge) -> float:
    """Seconds that draft models worked in this round, a backlog of unread tokens aside."""
    costs = judge.outlook.costs
    return sum(costs.drafting_s(each.n_rows, min(each.n_unread, 2)) for each in judge.courses.values())


def _lost_s(forecast: Forecast, judge: PacedJudge | None, outcome: Round, n_active: int) -> float:
    """Seconds that a round took beyond plain decoding of its tokens.

    What was read for the rounds to come does not count, unless it was read only to learn. A round is taken to
    last twice what was predicted at most, so that a busy machine is not blamed on drafts.
    """
    if judge is None or not (judge.courses or outcome.drafted):
        return 0.0
    invested_s = risked_s = 0.0
    for course in judge.courses.values():
        backlog_s = max(0, course.n_unread - 2) * judge.outlook.costs.read_s if course.n_rows else 0.0
        if course.mood == "hopeful":
            risked_s += backlog_s
        else:
            invested_s += backlog_s
    seconds = outcome.draft_s + outcome.verify_s + outcome.other_s - invested_s
    bounded = min(max(seconds, 0.0), 2 * forecast.seconds + risked_s)
    return (bounded - forecast.plain_s * (1 + outcome.accepted)) / n_active
