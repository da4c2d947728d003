"""Answers that were recorded, decoded again as the schedule would, with costs instead of passes.

The real schedule, lookups and hybrid are at work; only the models are replaced by what was recorded of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadout.advise.record import Answered, Guess
from leadout.core.cost import CostTable
from leadout.core.noise import RandomSource
from leadout.core.values import History, Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.prefix import common_prefix
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.events import Round
from leadout.engine.params import Params
from leadout.engine.schedule import RoundState, Schedule

USUAL_LENGTH = 200
"""Tokens of an answer over which reading the prompt with a draft model is spread."""

_WRONG = -1  # an id that no target says
_GREEDY = Params(temperature=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One answer, decoded as the schedule would.

    Parameters
    ----------
    seconds, plain_s : float
        After the first token: so, and plainly.
    tokens, passes, drafted, accepted : int
    """

    seconds: float
    plain_s: float
    tokens: int
    passes: int
    drafted: int
    accepted: int

    @property
    def speedup(self) -> float:
        """Plain time as a multiple of this one's."""
        return self.plain_s / self.seconds if self.seconds > 0 else 1.0


class RecordedDrafter:
    """Proposes what a draft model was recorded to, and counts what that costs.

    Its cache is that of `ModelDrafter`: a prefix of what is committed, and its own draft between proposal and
    observation.

    Parameters
    ----------
    name : str
        The draft model's.
    answered : Answered
        What the target said.
    guesses : sequence of Guess
        One for each token of the answer.
    costs : CostTable
    """

    def __init__(self, name: str, answered: Answered, guesses: Sequence[Guess], costs: CostTable) -> None:
        self._name, self._answer, self._guesses, self._costs = name, answered.answer, guesses, costs
        self._held: list[int] = []
        self._n_committed = 0
        self.drafting_s = 0.0
        self.backlog_s = 0.0  # of reading what is read once for the whole answer; part of drafting_s

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self._name

    def begin(self, slot: int, prompt: DraftPrompt) -> None:  # noqa: ARG002
        """Nothing is held yet."""
        self._held.clear()
        self._n_committed = len(prompt.ids)

    def observe(self, slot: int, committed: Sequence[int]) -> None:  # noqa: ARG002
        """Keep of the draft what was committed."""
        drafted = self._held[self._n_committed :]
        del self._held[self._n_committed + common_prefix(drafted, committed) :]
        self._n_committed += len(committed)

    def n_unread(self, request: DraftRequest) -> int:
        """Tokens to be read before the first can be drafted."""
        return max(1, len(request.context) - len(self._held))

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """The recorded guesses, as far as the judge wants them."""
        return [self._draft(request) for request in requests]

    def _draft(self, request: DraftRequest) -> Proposal:
        judge, n_unread = request.judge, self.n_unread(request)
        room = min(request.k, len(self._guesses) - request.position)
        if room <= 0 or judge.promise(self.name, n_unread) <= 0:
            return Proposal(drafter=self.name)
        tokens: list[int] = []
        confidences: list[float] = []
        while True:
            guess = self._guesses[request.position + len(tokens)]
            confidences.append(guess.confidence)
            if not judge.takes(self.name, confidences):
                break
            tokens.append(self._answer[request.position + len(tokens)] if guess.stood else _WRONG)
            if len(tokens) >= room or not judge.goes_on(self.name, confidences):
                break
        self._held = [*request.context, *tokens[: len(confidences) - 1]]
        self.drafting_s += self._costs.drafting_s(len(confidences), n_unread)
        self.backlog_s += max(0, n_unread - 2) * self._costs.read_s
        return Proposal(
            tokens=tuple(tokens), drafter=self.name, confidences=tuple(confidences[: len(tokens)])
        )

    def end(self, slot: int) -> None:
        """Nothing to do."""

    def blocked(self, slot: int) -> str:  # noqa: ARG002
        """Never."""
        return ""

    def limited(self, slot: int) -> str:  # noqa: ARG002
        """Never."""
        return ""

    def close(self) -> None:
        """Nothing to free."""


def replay(
    schedule: Schedule,
    answered: Answered,
    costs: CostTable,
    guesses: Sequence[Guess] | None = None,
    *,
    draft_name: str = "draft",
    widths: frozenset[int] | None = None,
) -> Replayed:
    """Decode an answer with lookups and, where there are guesses, with a draft model beside them.

    Parameters
    ----------
    schedule : Schedule
        Learns from it, as from a request.
    costs : CostTable
        What passes take.
    widths : frozenset of int or None
        The only widths a verify pass may have; None is any.
    """
    model = None if guesses is None else RecordedDrafter(draft_name, answered, guesses, costs)
    drafter = HybridDrafter([SuffixDrafter(), NgramDrafter()], model)
    answer, prompt = answered.answer, answered.sample.prompt
    done = _Run(drafter, model, schedule=schedule, context=list(prompt), costs=costs, widths=widths)
    schedule.begin(0)
    drafter.begin(0, DraftPrompt(ids=prompt))
    while done.position < len(answer):
        done.round(answer)
    schedule.end(0)
    return done.result(len(answer))


class _Run:
    """The rounds of one answer."""

    def __init__(
        self,
        drafter: HybridDrafter,
        model: RecordedDrafter | None,
        *,
        schedule: Schedule,
        context: list[int],
        costs: CostTable,
        widths: frozenset[int] | None,
    ) -> None:
        self._drafter, self._model, self._schedule = drafter, model, schedule
        self._context, self._costs, self._widths = context, costs, widths
        self._source = RandomSource(np.random.default_rng(0))
        self._seconds, self._passes, self._drafted, self._accepted = 0.0, 0, 0, 0
        self.position = 0

    def round(self, answer: Sequence[int]) -> None:
        """Plan, propose, verify and commit, as `Rounds` does."""
        schedule, drafted_s = self._schedule, self._model.drafting_s if self._model else 0.0
        k = min(schedule.plan(0), len(answer) - self.position - 1) if self.position else 0
        proposal = self._propose(k) if k > 0 else Proposal()
        forecast = schedule.forecast(0, proposal)
        accepted = common_prefix(proposal.tokens, answer[self.position :])
        committed = answer[self.position : self.position + accepted + 1]
        draft_s = self._model.drafting_s - drafted_s if self._model else 0.0
        verify_s = self._costs.verify_s(len(proposal.tokens) + 1)
        outcome = Round(
            index=0,
            drafter=proposal.source,
            drafted=len(proposal.tokens),
            accepted=accepted,
            emitted=len(committed),
            draft_s=draft_s,
            verify_s=verify_s,
            other_s=self._costs.fixed_s,
            width=len(proposal.tokens) + 1 if self.position else 0,
            forecast=forecast,
        )
        schedule.observe(0, outcome)
        self._drafter.observe(0, committed)
        if self.position:  # the first pass reads the prompt, whoever drafts later
            self._seconds += draft_s + verify_s + self._costs.fixed_s
            self._passes += 1
        self._drafted += len(proposal.tokens)
        self._accepted += accepted
        self._context.extend(committed)
        self.position += len(committed)

    def _propose(self, k: int) -> Proposal:
        ks: Sequence[int] = range(k + 1)
        if self._widths is not None:
            ks = sorted(width - 1 for width in self._widths if width <= k + 1)
        if ks[-1] == 0:
            return Proposal()
        n_left = max(1, USUAL_LENGTH - self.position)
        state = RoundState(position=self.position, n_left=n_left, n_active=1, ks=ks)
        request = DraftRequest(
            slot=0,
            context=self._context,
            k=ks[-1],
            sampling=_GREEDY,
            history=History(),
            position=self.position,
            noise=None,
            source=self._source,
            judge=self._schedule.judge(0, state),
        )
        proposal = self._drafter.propose([request])[0]
        return proposal.first(max(each for each in ks if each <= len(proposal.tokens)))

    def result(self, n: int) -> Replayed:
        """What it came to, with the reading of the prompt spread over a usual answer."""
        backlog_s = self._model.backlog_s if self._model else 0.0
        share = min(1.0, (n - 1) / (USUAL_LENGTH - 1))
        return Replayed(
            seconds=self._seconds - (1 - share) * backlog_s,
            plain_s=(n - 1) * self._costs.plain_s(),
            tokens=n,
            passes=self._passes,
            drafted=self._drafted,
            accepted=self._accepted,
        )


def with_draft(costs: CostTable, draft_s: float, read_s: float) -> CostTable:
    """A target's costs beside those of a draft model."""
    return replace(costs, draft_s=draft_s, read_s=read_s)
