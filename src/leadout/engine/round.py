"""The round: plan, propose, forward, verify, commit, settle.

Whatever is accepted, stopped, cancelled or raised: a cache is only ever cut back to committed tokens, and the
state of a session changes only in `Session.commit`. What fails for one session fails for that one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from leadout.core import verify
from leadout.core.constraint import Walk, ahead
from leadout.core.values import Proposal, Verdict
from leadout.drafters.base import DraftRequest
from leadout.drafters.forced import FORCED
from leadout.engine.drafting import NO_PROPOSAL, Drafting
from leadout.engine.events import Forecast, Origin, Round, Token
from leadout.engine.rows import argmaxes, distributions
from leadout.engine.schedule import RoundState, Schedule
from leadout.engine.session import Session
from leadout.errors import RollbackError
from leadout.models.base import Chunk, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a round brought to one session: its new tokens and the record of the round, or what failed."""

    session: Session
    tokens: tuple[Token, ...] = ()
    round: Round | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """What a target pass is to be: sessions, what is proposed to each, and the time that took."""

    sessions: Sequence[Session]
    proposals: Sequence[Proposal]
    draft_s: float
    other_s: float


class Rounds:
    """Runs rounds over sessions.

    Parameters
    ----------
    target : Model
    drafting : Drafting
    schedule : Schedule
        Picks k for each slot and round.
    widths : frozenset of int or None
        The only widths a verify pass may have (exact mode), or None for any.
    """

    def __init__(
        self, target: Model, drafting: Drafting, schedule: Schedule, *, widths: frozenset[int] | None
    ) -> None:
        self._target, self._drafting, self._schedule = target, drafting, schedule
        self._widths = widths

    def read(self, sessions: Sequence[Session], sizes: Sequence[int]) -> list[Outcome]:
        """Feed each session so many of its pending tokens, in one pass; what failed, if anything did."""
        chunks = []
        for session, size in zip(sessions, sizes, strict=True):
            at = self._target.length(session.slot)
            chunks.append(Chunk(slot=session.slot, tokens=session.context[at : at + size], n_logits=0))
        try:
            self._target.forward(chunks)
        except Exception as error:
            if len(sessions) == 1:
                return [Outcome(session=sessions[0], error=error)]
            return [
                failed
                for session, size in zip(sessions, sizes, strict=True)
                for failed in self.read([session], [size])
            ]
        for session, chunk in zip(sessions, chunks, strict=True):
            session.n_held += len(chunk.tokens)
        return []

    def run(self, sessions: Sequence[Session]) -> list[Outcome]:
        """One target pass over all sessions, and what follows from it for each."""
        started = perf_counter()
        wanted = [self._plan(session) for session in sessions]
        planned = perf_counter()
        proposals = self._propose(sessions, wanted)
        proposed = perf_counter()
        return self._verified(
            _Pass(
                sessions=sessions,
                proposals=proposals,
                draft_s=proposed - planned,
                other_s=planned - started,
            )
        )

    def _verified(self, asked: _Pass) -> list[Outcome]:
        """Run the pass; one that fails for several sessions is tried with each of them alone."""
        started = perf_counter()
        sessions, proposals = asked.sessions, asked.proposals
        forecasts = [self._forecast(*each) for each in zip(sessions, proposals, strict=True)]
        width, n_held = self._width(sessions, proposals), self._n_held(sessions)
        foretold = perf_counter()
        try:
            logits = self._forward(sessions, proposals)
        except Exception as error:
            if len(sessions) == 1:
                return [Outcome(session=sessions[0], error=error)]
            return [
                outcome
                for session, proposal in zip(sessions, proposals, strict=True)
                for outcome in self._verified(replace(asked, sessions=[session], proposals=[proposal]))
            ]
        seen = perf_counter()
        results = [self._take(*each) for each in zip(sessions, proposals, logits, strict=True)]
        other_s = asked.other_s + (foretold - started) + (perf_counter() - seen)
        outcomes = []
        for session, proposal, forecast, result in zip(sessions, proposals, forecasts, results, strict=True):
            if isinstance(result, Exception):
                outcomes.append(Outcome(session=session, error=result))
                continue
            accepted, tokens = result
            outcome = Round(
                index=session.index,
                drafter=proposal.source,
                drafted=len(proposal.tokens),
                accepted=accepted,
                emitted=len(tokens),
                draft_s=asked.draft_s,
                verify_s=seen - foretold,
                other_s=other_s,
                width=width,
                n_held=n_held,
                forecast=forecast,
                forced=sum(proposal.drafter_of(at) == FORCED for at in range(accepted)),
            )
            if session.speculation.enabled:
                self._schedule.observe(session.slot, outcome)
            outcomes.append(Outcome(session=session, tokens=tokens, round=outcome))
        return outcomes

    def _plan(self, session: Session) -> int:
        """How many tokens to ask the drafter for."""
        n_pending = len(session.context) - self._target.length(session.slot)
        if not session.speculation.enabled or session.position == 0 or n_pending > 1:
            return 0
        k = self._schedule.plan(session.slot)
        why = why_none_fits(k, self._widths, self._target.info.name) if k > 0 else ""
        if why:  # nothing drafted teaches nothing, so k would stay there
            session.stop_drafting(why)
            return 0
        return self._fitting(min(k, session.room - 1, session.params.max_draft or k))

    def _fitting(self, k: int) -> int:
        """The longest draft up to k whose verify width is allowed."""
        return self._allowed(k)[-1]

    def _allowed(self, k: int) -> Sequence[int]:
        """Draft lengths up to k whose verify width is allowed, ascending."""
        if self._widths is None:
            return range(k + 1)
        return sorted(width - 1 for width in self._widths if width <= k + 1)

    def _propose(self, sessions: Sequence[Session], wanted: Sequence[int]) -> list[Proposal]:
        """Ask for all slots together, and cut what comes to what may be verified."""
        asking = [session for session, k in zip(sessions, wanted, strict=True) if k > 0]
        if not asking:
            return [NO_PROPOSAL for _ in sessions]
        n_held = self._n_held(sessions)
        requests = [
            self._request(session, k, len(sessions), n_held)
            for session, k in zip(sessions, wanted, strict=True)
            if k > 0
        ]
        drafted = iter(self._drafting.propose(asking, requests))
        proposals = [self._cut(next(drafted), k) if k > 0 else NO_PROPOSAL for k in wanted]
        for session, k, proposal in zip(sessions, wanted, proposals, strict=True):
            session.n_asked += k > 0
            session.n_drafted += len(proposal.tokens)
        return proposals

    def _request(self, session: Session, k: int, n_active: int, n_held: int) -> DraftRequest:
        state = RoundState(
            position=session.position,
            n_left=session.room,
            n_active=n_active,
            ks=self._allowed(k),
            n_held=n_held,
        )
        return DraftRequest(
            slot=session.slot,
            context=session.context,
            k=k,
            sampling=session.params,
            history=session.history,
            position=session.position,
            noise=session.noise,
            source=session.source,
            judge=self._schedule.judge(session.slot, state),
            constraint=session.constraint,
        )

    def _cut(self, proposal: Proposal, k: int) -> Proposal:
        # by length alone, never by looking at the tokens: that would bias what is said
        return proposal.first(self._fitting(min(k, len(proposal.tokens))))

    def _forecast(self, session: Session, proposal: Proposal) -> Forecast | None:
        return self._schedule.forecast(session.slot, proposal) if session.speculation.enabled else None

    def _width(self, sessions: Sequence[Session], proposals: Sequence[Proposal]) -> int:
        """Tokens in the pass to come, or 0 when tokens of a prompt are among them."""
        if any(len(each.context) - self._target.length(each.slot) != 1 for each in sessions):
            return 0
        return sum(1 + len(proposal.tokens) for proposal in proposals)

    def _n_held(self, sessions: Sequence[Session]) -> int:
        """Tokens that each slot holds, on average."""
        return sum(self._target.length(each.slot) for each in sessions) // len(sessions)

    def _forward(
        self, sessions: Sequence[Session], proposals: Sequence[Proposal]
    ) -> list[NDArray[np.float32]]:
        """Pending and drafted tokens of all sessions in one pass; logits of shape (k+1, V) each."""
        chunks = []
        for session, proposal in zip(sessions, proposals, strict=True):
            pending = session.context[self._target.length(session.slot) :]
            tokens = (*pending, *proposal.tokens)
            chunks.append(Chunk(slot=session.slot, tokens=tokens, n_logits=1 + len(proposal.tokens)))
        return self._target.forward(chunks)

    def _take(
        self, session: Session, proposal: Proposal, logits: NDArray[np.float32]
    ) -> tuple[int, tuple[Token, ...]] | Exception:
        """How many drafted tokens stood, and the tokens of the answer; or why there are none."""
        try:
            verdict = self._verify(session, proposal, logits)
            return verdict.accepted, self._commit(session, proposal, verdict, logits)
        except Exception as error:
            return error

    def _commit(
        self, session: Session, proposal: Proposal, verdict: Verdict, logits: NDArray[np.float32]
    ) -> tuple[Token, ...]:
        """Commit token by token until the answer is complete, and settle both caches."""
        before = len(session.context)
        tokens = []
        for i, token in enumerate((*proposal.tokens[: verdict.accepted], verdict.token)):
            event = session.commit(token, _origin(i, verdict, len(proposal.tokens)), logits[i])
            if event is not None:
                tokens.append(event)
            if session.finish is not None:
                break
        session.n_held = before + min(verdict.accepted, len(session.context) - before)
        self._settle(session, session.context[before:])
        return tuple(tokens)

    def _verify(self, session: Session, proposal: Proposal, logits: NDArray[np.float32]) -> Verdict:
        if session.constraint is None:
            return _verdict(session, proposal, logits, None)
        with ahead(session.constraint) as walk:
            return _verdict(session, proposal, logits, walk)

    def _settle(self, session: Session, committed: Sequence[int]) -> None:
        """Cut both caches back to committed tokens; the last of them stays pending."""
        slot, held = session.slot, len(session.context) - 1
        if session.finish is None and self._target.length(slot) > held:
            try:
                self._target.truncate(slot, held)
            except RollbackError as error:  # the slot is empty now, and is read anew
                session.stop_drafting(str(error))
                session.n_held = 0
        self._drafting.observe(session, committed)


def _verdict(session: Session, proposal: Proposal, logits: NDArray[np.float32], walk: Walk | None) -> Verdict:
    """What the request's rule says of a proposal."""
    params, drafted = session.params, proposal.tokens
    if params.rule == "greedy":
        return verify.greedy(drafted, argmaxes(logits, params, session.history, drafted, walk))
    targets = distributions(logits, params, session.history, drafted, walk)
    if session.noise is not None:
        return verify.coupled(drafted, targets, session.noise, session.position)
    if params.rule == "token":
        return verify.token(proposal, targets, session.source)
    return verify.block(proposal, targets, session.source)


def why_none_fits(k: int, widths: frozenset[int] | None, name: str) -> str:
    """Why no draft of up to `k` tokens may be verified by the model of that name, or "" when one may."""
    if k == 0:
        return "nothing may be drafted, as k is 0"
    if widths is None or any(1 < width <= k + 1 for width in widths):
        return ""
    if widths == {1}:
        return f"in exact mode, as only passes of one token are exact with {name}"
    known = ", ".join(map(str, sorted(widths)))
    return f"in exact mode, as k is {k} and {name} is exact at these widths (k + 1) alone: {known}"


def _origin(i: int, verdict: Verdict, drafted: int) -> Origin:
    if i < verdict.accepted:
        return "accepted"
    if drafted == 0:
        return "plain"
    return "corrected" if verdict.accepted < drafted else "bonus"
