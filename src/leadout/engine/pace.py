"""The schedule that earns its keep: it drafts what is predicted to pay on this machine, and else nothing.

Costs and acceptance are learned from every round. What was learned lasts; what a request was like does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from leadout.checks import check_number, check_whole
from leadout.core.values import Proposal
from leadout.drafters.base import Judge, Willing
from leadout.engine.beliefs import RequestBeliefs, drafting
from leadout.engine.books import LOSS_BY_DARING, LOSS_BY_DRAFTS, Books, RequestBooks, drafting_s
from leadout.engine.events import Forecast, Round
from leadout.engine.judge import PacedJudge
from leadout.engine.memory import Memory
from leadout.engine.outlook import Outlook, Refusal, expected_left
from leadout.engine.schedule import MAX_K, Ending, RoundState, Schedule

LONGEST_DRAFT = 15
EXPLORATION = 0.02

_MARGIN = 0.05  # tokens: as little is within the errors of estimates
_MARGIN_UNSEEN = 0.15  # while no plain round was seen of late, which would tell what drafting really gains
_N_UNSEEN = 16
_N_QUIET = 16  # tokens without a draft after which drafting is off


@dataclass(slots=True)
class _Request:
    """What one request was like so far, and the round that it is in."""

    beliefs: RequestBeliefs
    books: RequestBooks = field(default_factory=RequestBooks)
    refusal: Refusal = field(default_factory=Refusal)
    judge: PacedJudge | None = None
    proposal: Proposal | None = None
    forecast: Forecast | None = None


class PacedSchedule(Schedule):
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
        self._longest, self._save, self._note = longest, save, note
        self._books = Books(self._memory.exploration, exploration)
        self._requests: dict[int, _Request] = {}

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
        return self._memory.exploration.share

    @property
    def longest(self) -> int:
        """The most that was asked for."""
        return self._longest

    def begin(self, slot: int) -> None:
        """Forget what the last request in `slot` was like."""
        self._requests[slot] = _Request(RequestBeliefs(self._memory))

    def plan(self, slot: int) -> int:  # noqa: ARG002
        """The longest draft; the judge decides. Nothing before a plain pass was measured."""
        return self._longest if self._memory.profile.is_known else 0

    def judge(self, slot: int, state: RoundState) -> Judge:
        """A judge with the costs, the rate and the budget of this moment."""
        if not self._memory.profile.is_known:
            return Willing()
        request, costs = self._requests[slot], self._memory.profile.costs_of(state.n_active, state.n_held)
        books, n_active = request.books, state.n_active
        left = expected_left(state.position, state.n_left, self._memory.usual_length)
        left_s = left * costs.plain_s() / n_active
        outlook = Outlook(
            state=state,
            costs=costs,
            rate=n_active * books.rate(costs.plain_s()),
            n_left=left,
            tokens_per_round=books.tokens_per_round,
            allowance_s=n_active * self._books.lookups_allowance_s(books, left_s),
            draft_allowance_s=n_active * self._books.allowance_s(books, left_s, LOSS_BY_DRAFTS),
            budget_s=n_active * self._books.budget_s(books, left_s),
            daring_budget_s=n_active * self._books.budget_s(books, left_s, LOSS_BY_DARING),
            margin=_MARGIN if books.n_since_plain < _N_UNSEEN else _MARGIN_UNSEEN,
        )
        request.judge = PacedJudge(outlook, request.beliefs)
        return request.judge

    def forecast(self, slot: int, proposal: Proposal) -> Forecast | None:
        """Chances of the tokens, and the seconds of the round with and without them."""
        request, profile, judge = self._requests[slot], self._memory.profile, self._requests[slot].judge
        request.proposal, request.forecast = proposal, None
        if not profile.is_known:
            return None
        if judge is None:
            plain_s = profile.costs.plain_s()
            request.forecast = Forecast(seconds=plain_s, plain_s=plain_s)
            return request.forecast
        costs = judge.outlook.costs
        request.forecast = Forecast(
            chances=request.beliefs.chances(proposal, judge.outlook.state.position),
            seconds=costs.plain_s() + costs.extra_s(len(proposal.tokens)) + drafting_s(judge, costs),
            plain_s=costs.plain_s(),
        )
        return request.forecast

    def observe(self, slot: int, outcome: Round) -> None:
        """Learn costs and acceptance, and keep the books."""
        request = self._requests[slot]
        judge, proposal, forecast = request.judge, request.proposal, request.forecast
        n_active = 1 if judge is None else judge.outlook.state.n_active
        self._learn_costs(outcome, judge, n_active)
        if judge is not None:
            for drafter, course in judge.courses.items():
                request.beliefs.saw_course(drafter, course)
            if proposal is not None:
                request.beliefs.saw_verdict(proposal, judge.outlook.state.position, outcome.accepted)
            if judge.refusal.drafter:
                request.refusal = judge.refusal
        self._books.add(outcome, judge, n_active)
        request.books.add(outcome, forecast, judge, n_active)
        request.books.lost_s -= 0.0 if judge is None else judge.forgone_s / n_active
        request.beliefs.round_over(request.books.n_tokens)
        request.judge = request.proposal = request.forecast = None

    def end(self, slot: int) -> Ending | None:
        """Why the last tokens were decoded plainly, if they were because nothing was predicted to pay."""
        request = self._requests.pop(slot, None)
        if request is None or not request.books.n_rounds:
            return None
        books, refusal = request.books, request.refusal
        self._memory.answered(books.n_tokens)
        self._books.close(books)
        has_ended = not books.n_when_drafted or books.n_tokens - books.n_when_drafted >= _N_QUIET
        if not refusal.drafter or not has_ended:
            return None
        return Ending(n_tokens=books.n_when_drafted, reason=refusal.reason)

    def close(self) -> None:
        """Hand over what was learned."""
        if self._save is not None and self._memory.profile.is_known:
            self._save(self._memory)

    def _learn_costs(self, outcome: Round, own: PacedJudge | None, n_active: int) -> None:
        """Costs of the pass, told once for all slots that shared it: by the first that is asked."""
        profile = self._memory.profile
        judges = [] if own is None else [own]
        if n_active > 1:
            judges = [each.judge for each in self._requests.values() if each.judge is not None]
            if len(judges) != n_active:
                return
        if outcome.width:
            profile.saw_verify(outcome.width, outcome.verify_s, n_active, outcome.n_held)
            profile.saw_other(outcome.other_s)
        n_passes, n_read = drafting(course for judge in judges for course in judge.courses.values())
        profile.saw_draft(n_passes, n_read, outcome.draft_s)
