"""One request, first pass to last event: slots taken, answers run together or in turn, slots given back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from time import perf_counter

import numpy as np

from leadout.core.noise import Noise, RandomSource
from leadout.drafters.base import Drafter, DraftPrompt
from leadout.engine.events import Event, Speculation, Started
from leadout.engine.params import Params
from leadout.engine.round import Outcome, Rounds, why_none_fits
from leadout.engine.schedule import Schedule
from leadout.engine.session import Session
from leadout.engine.slots import SlotPool
from leadout.errors import RollbackError
from leadout.models.base import Model


class Generation:
    """Runs requests, one at a time, over caches that it keeps between them.

    Parameters
    ----------
    target : Model
    drafter : Drafter or None
    schedule : Schedule
    widths : frozenset of int or None
        The only widths that a verify pass may have; one slot a pass then (exact mode). None for no limit.
    prefill_batch : int
        Longest piece of a prompt in one pass.
    generator : callable
        Makes the random generator of each answer.
    """

    def __init__(
        self,
        target: Model,
        drafter: Drafter | None,
        schedule: Schedule,
        *,
        widths: frozenset[int] | None,
        prefill_batch: int,
        generator: Callable[[], np.random.Generator],
    ) -> None:
        self._target, self._schedule, self._generator = target, schedule, generator
        self._batch, self._is_exact = prefill_batch, widths is not None
        self._given = drafter
        self._off = _why_off(target, drafter, schedule, widths)
        self._drafter = None if self._off else drafter
        self._rounds = Rounds(target, self._drafter, schedule, widths=widths, prefill_batch=prefill_batch)
        self._pool = SlotPool(target.info.n_slots)
        self._running: list[Session] = []
        self._drafting: set[int] = set()  # slots that the drafter was told of

    def speculation(self, params: Params) -> Speculation:
        """Whether a request with these parameters starts out speculatively, and why or why not."""
        off = self._off or ("" if params.speculate else "the request asked for plain decoding")
        name = "none" if self._given is None else self._given.name
        on = f"on: draft {name}, {self._schedule.name}"
        return Speculation(
            enabled=not off,
            reason=f"off: {off}" if off else on,
            drafter=name,
            verification=params.rule,
            schedule=self._schedule.name,
        )

    def run(
        self, prompt: Sequence[int], params: Params, is_cancelled: Callable[[], bool]
    ) -> Generator[Event, None, None]:
        """The events of all answers: together while there are slots, in turn beyond that."""
        together = self._target.info.n_slots
        for first in range(0, params.n, together):
            indexes = range(first, min(first + together, params.n))
            try:
                yield from self._answers(prompt, params, indexes, is_cancelled)
            finally:
                self.abandon()

    def close(self) -> None:
        """Abandon what is running, and let the schedule keep what it learned."""
        self.abandon()
        self._schedule.close()

    def abandon(self) -> None:
        """Close what is running, each cache at a committed prefix."""
        with ExitStack() as closing:
            for session in self._running:
                closing.callback(self._close, session)

    def _answers(
        self, prompt: Sequence[int], params: Params, indexes: Sequence[int], is_cancelled: Callable[[], bool]
    ) -> Generator[Event, None, None]:
        started = perf_counter()
        lead = self._open(prompt, params, indexes[0])
        # with several answers, all but the last token of the prompt is read once and copied
        leave = 1 if len(indexes) > 1 else self._batch
        while not is_cancelled() and self._rounds.read(lead, leave):
            pass
        for index in indexes[1:]:
            self._open_copy(lead, prompt, params, index)
        is_first = True
        while self._running:
            outcomes = [] if is_cancelled() else self._round()
            events: list[Event] = []
            if is_first:
                seconds = perf_counter() - started
                events += [_started(session, seconds) for session in self._running]
                is_first = False
            for outcome in outcomes:
                events += [*outcome.tokens, outcome.round]
            # caches first, events after: whoever reads an event may stop reading there
            for session in [each for each in self._running if each.finish is not None or not outcomes]:
                self._close(session)
                events.append(session.finished())
            yield from events

    def _round(self) -> list[Outcome]:
        if self._is_exact:
            return [outcome for session in self._running for outcome in self._rounds.run([session])]
        return self._rounds.run(self._running)

    def _open(self, prompt: Sequence[int], params: Params, index: int) -> Session:
        """Start an answer in the slot that holds most of the prompt."""
        session, shared = self._admit(prompt, prompt, params, index)
        with suppress(RollbackError):  # the slot is empty then
            self._target.truncate(session.slot, min(shared, len(prompt) - 1))
        session.n_held = session.cached_tokens = self._target.length(session.slot)
        self._begin(session, prompt)
        return session

    def _open_copy(self, lead: Session, prompt: Sequence[int], params: Params, index: int) -> None:
        """Start another answer to the prompt that `lead` has read."""
        session, _ = self._admit((), prompt, params, index)
        try:
            self._target.copy(lead.slot, session.slot, self._target.length(lead.slot))
        except RollbackError:
            self._target.truncate(session.slot, 0)
        session.n_held = session.cached_tokens = self._target.length(session.slot)
        self._begin(session, prompt)

    def _admit(
        self, wanted: Sequence[int], prompt: Sequence[int], params: Params, index: int
    ) -> tuple[Session, int]:
        """A session in the slot that holds most of `wanted`, and how much of it that is."""
        slot, shared = self._pool.acquire(wanted)
        try:
            session = self._session(slot, prompt, params, index)
            self._running.append(session)
        except BaseException:  # an interrupt too: a cached prefix may be lost, a slot never
            self._pool.release(slot, ())
            raise
        return session, shared

    def _session(self, slot: int, prompt: Sequence[int], params: Params, index: int) -> Session:
        seed = params.seed if params.rule == "coupled" else None
        return Session(
            index=index,
            slot=slot,
            prompt=prompt,
            params=params,
            vocab=self._target.vocab,
            n_ctx=self._target.info.n_ctx,
            noise=None if seed is None else Noise(seed, index),
            source=RandomSource(self._generator()),
            speculation=self.speculation(params),
        )

    def _begin(self, session: Session, prompt: Sequence[int]) -> None:
        self._schedule.begin(session.slot)
        if self._drafter is None or not session.speculation.enabled:
            return
        self._drafter.begin(session.slot, DraftPrompt(ids=prompt))
        self._drafting.add(session.slot)
        why = self._drafter.blocked(session.slot)
        if why:
            session.stop_drafting(why)
        else:
            session.note_limit(self._drafter.limited(session.slot))

    def _close(self, session: Session) -> None:
        """Give the slot back, its cache cut to committed tokens."""
        slot, held = session.slot, 0
        try:
            ending = self._schedule.end(slot)
            if ending is not None and session.speculation.enabled:
                session.stop_drafting(ending.reason, ending.n_tokens)
            if slot in self._drafting and self._drafter is not None:
                self._drafting.remove(slot)
                self._drafter.end(slot)
            # where going back is dear or impossible, a committed last token may stay
            pending = 1 if self._target.info.rollback == "cut" else 0
            keep = min(self._target.length(slot), session.n_held, len(session.context) - pending)
            self._target.truncate(slot, keep)
            held = keep
        except RollbackError:
            pass  # the slot is empty
        finally:
            self._running.remove(session)
            self._pool.release(slot, session.context[:held])


def _started(session: Session, seconds: float) -> Started:
    return Started(
        index=session.index,
        prompt_tokens=session.n_prompt,
        cached_tokens=session.cached_tokens,
        seconds=seconds,
        speculation=session.speculation,
    )


def _why_off(
    target: Model, drafter: Drafter | None, schedule: Schedule, widths: frozenset[int] | None
) -> str:
    """Why nothing can be drafted for this target, or "" when something can."""
    if drafter is None:
        return "no draft was asked for"
    if target.info.rollback == "none":
        return target.info.rollback_reason
    return why_none_fits(schedule.longest, widths, target.info.name)
