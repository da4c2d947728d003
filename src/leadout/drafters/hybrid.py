"""Several drafters as one: each round, what is predicted to pay most for that slot.

Tokens that a constraint forces and lookups come first, since they cost next to nothing; the draft model is
asked where it promises more, or to go on where a lookup ends. What is taken follows from the committed text
and from confidences, never from tokens that were drawn, so each row stays the distribution its token was
drawn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

from leadout.core.constraint import ahead
from leadout.core.values import Distribution, Proposal
from leadout.drafters.base import Drafter, DraftPrompt, DraftRequest, Lookup
from leadout.drafters.forced import credited, forced, held_to
from leadout.drafters.untried import UntriedProposals
from leadout.errors import InputError

_NOTHING = Proposal()


class DraftModel(Drafter, Protocol):
    """A drafter that has to read the text before it can draft."""

    def n_unread(self, request: DraftRequest) -> int:
        """Tokens of the request's context that have to be read before the first token can be drafted."""


class HybridDrafter:
    """Takes from lookups and a draft model, slot by slot and round by round.

    A part that is blocked leaves the others at work, and `limited` says why.

    Parameters
    ----------
    lookups : sequence of Lookup
        Of equally good ones the first is taken.
    model : DraftModel or None
        Drafts for all slots that want it in the same passes.

    Raises
    ------
    InputError
        If there is no part at all.
    """

    def __init__(self, lookups: Sequence[Lookup], model: DraftModel | None = None) -> None:
        self._lookups, self._model = tuple(lookups), model
        self._parts: tuple[Drafter, ...] = self._lookups if model is None else (*self._lookups, model)
        if not self._parts:
            raise InputError("a hybrid drafter needs at least one lookup or a draft model")
        self._name = "+".join(part.name for part in self._parts)
        self._untried = UntriedProposals()

    @property
    def name(self) -> str:
        """The names of the parts, such as "suffix+ngram+qwen2.5-coder-0.5b"."""
        return self._name

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Tell every part."""
        self._untried.begin(slot)
        for part in self._parts:
            part.begin(slot, prompt)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Tell every part, whoever proposed."""
        self._untried.observe(slot, committed)
        for part in self._parts:
            part.observe(slot, committed)

    def end(self, slot: int) -> None:
        """Tell every part."""
        self._untried.end(slot)
        with ExitStack() as parts:
            for part in self._parts:
                parts.callback(part.end, slot)

    def blocked(self, slot: int) -> str:
        """Why none of the parts can draft for `slot` any more, or ""."""
        reasons: list[str] = []
        for part in self._parts:
            if not (reason := part.blocked(slot)):
                return ""
            reasons.append(reason)
        return "; ".join(reasons)

    def limited(self, slot: int) -> str:
        """Why some of the parts cannot draft for `slot` any more while others can, or ""."""
        reasons = [part.blocked(slot) or part.limited(slot) for part in self._parts]
        return "" if self.blocked(slot) else "; ".join(reason for reason in reasons if reason)

    def close(self) -> None:
        """Close every part."""
        with ExitStack() as parts:
            for part in self._parts:
                parts.callback(part.close)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """For each request the proposal that is predicted to pay most; the model drafts them all together."""
        for request in requests:
            for outcome in self._untried.news(request.slot):
                request.judge.learns(outcome)
        found = self._look_up(requests)
        best, worths = self._best_of(requests, found)
        if self._model is not None:
            self._draft(self._model, requests, best, worths)
        for request, taken, proposals in zip(requests, best, found, strict=True):
            self._watch(request, taken, proposals)
        return best

    def _draft(
        self,
        model: DraftModel,
        requests: Sequence[DraftRequest],
        best: list[Proposal],
        worths: Sequence[float],
    ) -> None:
        """Let the model draft where that is worth more than the best lookup, or goes on after it."""
        with ExitStack() as walks:
            asked = []
            for at, request in enumerate(requests):
                if model.blocked(request.slot):
                    continue
                run = best[at]
                if request.judge.promise(model.name, model.n_unread(request)) > worths[at]:
                    asked.append((at, _NOTHING, request))
                elif (tail := _tail(request, run, model, walks)) is not None:
                    asked.append((at, run, tail))
            drafts = model.propose([request for _, _, request in asked]) if asked else []
        for (at, run, _), draft in zip(asked, drafts, strict=True):
            best[at] = _joined(run, draft) if draft.tokens else best[at]

    def _look_up(self, requests: Sequence[DraftRequest]) -> list[list[Proposal]]:
        """For each request what is certain, and all that lookups propose, as far as constraints allow it."""
        found = []
        for request in requests:
            sure = forced(request)
            proposals = [held_to(request, lookup.look_up(request)) for lookup in self._lookups]
            found.append([sure, *(credited(proposal, sure) for proposal in proposals)])
        return found

    def _best_of(
        self, requests: Sequence[DraftRequest], found: Sequence[Sequence[Proposal]]
    ) -> tuple[list[Proposal], list[float]]:
        """For each request the proposal of the highest worth, or an empty one; and its worth."""
        best = [Proposal(drafter=self.name) for _ in requests]
        worths = [0.0] * len(requests)
        for at, (request, proposals) in enumerate(zip(requests, found, strict=True)):
            for proposal in proposals:
                if not proposal.tokens:
                    continue
                weighed = request.judge.weigh(proposal.drafter, proposal.confidences)
                if weighed.worth > worths[at]:
                    best[at], worths[at] = proposal.first(weighed.k), weighed.worth
        return best, worths

    def _watch(self, request: DraftRequest, taken: Proposal, proposals: Sequence[Proposal]) -> None:
        """See what comes of lookups' proposals, as far as they are not verified now."""
        verified = {taken.given_by: taken.n_given, taken.drafter: len(taken.tokens)}
        for proposal in proposals[1:]:
            known = max(proposal.n_given, verified.get(proposal.drafter, 0))
            self._untried.watch(request.slot, proposal, request.position, known)


def _tail(request: DraftRequest, run: Proposal, model: DraftModel, walks: ExitStack) -> DraftRequest | None:
    """The request to go on after `run`, or None when that is not worth it.

    Its constraint is moved behind the run until `walks` are closed.
    """
    length = len(run.tokens)
    if not 0 < length < request.k:
        return None
    tail = replace(
        request,
        context=[*request.context, *run.tokens],
        k=request.k - length,
        history=request.history.after(run.tokens),
        position=request.position + length,
    )
    judge = request.judge.after_run(model.name, run, model.n_unread(tail))
    if judge is None:
        return None
    if request.constraint is not None:
        walk = walks.enter_context(ahead(request.constraint))
        walk.go_to(run.tokens)
        if walk.is_over:
            return None
    return replace(tail, judge=judge)


def _joined(run: Proposal, draft: Proposal) -> Proposal:
    """A lookup's run, whose rows are point masses, and what the model drew after it."""
    if not run.tokens:
        return draft
    rows = None if draft.rows is None else (*(Distribution.point(each) for each in run.tokens), *draft.rows)
    knows_all = len(draft.confidences) == len(draft.tokens)
    return Proposal(
        tokens=(*run.tokens, *draft.tokens),
        rows=rows,
        drafter=draft.drafter,
        confidences=(*run.confidences, *draft.confidences) if knows_all else (),
        n_given=len(run.tokens),
        given_by=run.drafter,
    )
