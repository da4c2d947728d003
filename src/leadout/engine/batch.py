"""Answers in progress over the slots of one model: they join and leave between rounds and share their passes.

Prompts are read in pieces beside the rounds; what another slot holds of a prompt is copied, not read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from leadout.core.noise import Noise, RandomSource
from leadout.drafters.base import Drafter
from leadout.engine.answer import Answer, Request
from leadout.engine.drafting import Drafting
from leadout.engine.events import Event, Speculation, Started
from leadout.engine.params import Params
from leadout.engine.prefixes import Prefixes
from leadout.engine.reading import Backlog, ReadingPace
from leadout.engine.round import Outcome, Rounds, why_none_fits
from leadout.engine.schedule import Schedule
from leadout.engine.session import Session
from leadout.engine.slots import SlotPool
from leadout.errors import BackendError, LeadoutError
from leadout.models.base import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a step brought to an answer: events, up to `Finished`, or the error that ended it."""

    answer: Answer
    events: tuple[Event, ...] = ()
    error: Exception | None = None


@dataclass(slots=True)
class _Clock:
    """Time spent in steps; what callers do between them does not count."""

    worked_s: float = 0.0
    started: float = field(default_factory=perf_counter)

    def start(self) -> None:
        self.started = perf_counter()

    def stop(self) -> None:
        self.worked_s = self.now

    @property
    def now(self) -> float:
        """While a step runs: the time spent in steps up to this moment."""
        return self.worked_s + perf_counter() - self.started


class Batch:
    """Runs answers together over caches that it keeps between them; for any thread.

    Parameters
    ----------
    target : Model
    drafter : Drafter or None
    schedule : Schedule
    widths : frozenset of int or None
        The only widths that a verify pass may have; one slot a pass then (exact mode). None for no limit.
    prefill_batch : int
        Most tokens of prompts in one pass.
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
        info = target.info
        self._target, self._schedule, self._generator = target, schedule, generator
        self._given = drafter
        self._off = _why_off(target, drafter, schedule, widths)
        self._drafting = Drafting(None if self._off else drafter)
        self._rounds = Rounds(target, self._drafting, schedule, widths=widths)
        self._widths = widths
        self._pace = ReadingPace(prefill_batch)
        self._is_together = widths is None and info.shares_passes
        self._pool = SlotPool(info.n_slots, can_copy=info.copying == "any")
        self._running: dict[int, Answer] = {}  # by slot
        self._prefixes = Prefixes(target, self._pool, self._running)
        self._clock, self._n_steps = _Clock(), 0
        # Held while caches change. Reentrant, as a forgotten iterator may be collected in the middle of it.
        self._lock = threading.RLock()
        self._is_closed = False

    @property
    def n_free(self) -> int:
        """Answers that may join now."""
        return self._pool.n_free

    @property
    def is_closed(self) -> bool:
        """Whether nothing can join any more."""
        return self._is_closed

    @property
    def running(self) -> tuple[Answer, ...]:
        """The answers in progress, in the order in which they joined."""
        return tuple(self._running.values())

    @property
    def n_cached(self) -> int:
        """Tokens in the caches of all slots."""
        running = sum(answer.session.n_held for answer in self.running)
        return running + self._pool.n_held

    def speculation(self, params: Params) -> Speculation:
        """Whether a request with these parameters starts out speculatively, and why or why not."""
        off = self._off or self._why_off(params)
        name = "none" if self._given is None else self._given.name
        on = f"on: draft {name}, {self._schedule.name}"
        return Speculation(
            enabled=not off,
            reason=f"off: {off}" if off else on,
            drafter=name,
            verification=params.rule,
            schedule=self._schedule.name,
        )

    def join(self, request: Request, index: int = 0) -> Answer:
        """Begin answer `index` of a request; there must be a free slot."""
        with self._lock:
            self.require_open()
            slot, shared = self._pool.acquire(request.prompt.ids, request.prompt.client)
            try:
                session = self._session(slot, request, index)
                answer = Answer(request=request, session=session, joined_s=self._clock.worked_s)
                self._running[slot] = answer
            except BaseException:  # an interrupt too: a cached prefix may be lost, a slot never
                self._pool.release(slot)
                raise
            try:
                self._prefixes.settle(answer, shared)
                self._schedule.begin(slot)
                self._drafting.begin(session, request.prompt)
            except BaseException:
                self._close(answer)
                raise
            return answer

    def step(self) -> list[Progress]:
        """Read pieces of prompts and run one round of every answer whose prompt was read before."""
        with self._lock:
            self.require_open()
            self._clock.start()
            self._n_steps += 1
            try:
                self._prefixes.follow()
                progress = [self._progress(outcome) for outcome in self._read()]
                self._prefixes.follow()
                seen = {each.answer.session.slot for each in progress}
                ready = [
                    answer.session
                    for answer in self.running
                    if answer.session.slot not in seen and not self._is_reading(answer)
                ]
                for group in self._passes(ready):
                    progress += [self._progress(outcome) for outcome in self._rounds.run(group)]
            finally:
                self._clock.stop()
            return progress

    def leave(self, answer: Answer) -> list[Event]:
        """End an answer now, as cancelled; its last events, none if it was over already."""
        with self._lock:
            session = answer.session
            if self._running.get(session.slot) is not answer:
                return []
            started = [] if answer.seen_s is not None else [self._started(answer, self._clock.worked_s)]
            self._close(answer)
            return [*started, session.finished()]

    def require_open(self) -> None:
        """Raise BackendError if the batch was closed."""
        if self._is_closed:
            raise BackendError("the engine was closed during this generation")

    def abandon(self) -> None:
        """Close all that is running, each cache at a committed prefix."""
        with self._lock, ExitStack() as closing:
            for answer in self.running:
                closing.callback(self._close, answer)

    def close(self) -> None:
        """Abandon what is running, and let the schedule keep what it learned; closing twice is allowed."""
        self._is_closed = True  # before waiting for the running step, so that no other one begins
        with self._lock, ExitStack() as closing:
            closing.callback(self._schedule.close)
            closing.callback(self.abandon)

    def _why_off(self, params: Params) -> str:
        """Why a request with these parameters is decoded plainly, or ""."""
        if not params.speculate:
            return "the request asked for plain decoding"
        if params.max_draft is None:
            return ""
        longest = min(params.max_draft, self._schedule.longest)
        return why_none_fits(longest, self._widths, self._target.info.name)

    def _passes(self, sessions: Sequence[Session]) -> Iterator[Sequence[Session]]:
        """The sessions of each pass: all of them, or one by one."""
        if self._is_together:
            yield from [sessions] if sessions else []
        else:
            yield from ([session] for session in sessions)

    def _read(self) -> list[Outcome]:
        """Read pieces of prompts; with its last piece a prompt has its first round."""
        readers = [each for each in self.running if self._is_reading(each) and each.leader is None]
        backlogs = [Backlog(n_tokens=self._goal(each), read_at=each.read_at) for each in readers]
        is_alone = all(self._is_reading(each) for each in self.running)
        sizes = self._pace.sizes(backlogs, is_alone=is_alone)
        pieces: list[tuple[Session, int]] = []
        last: list[tuple[Session, int]] = []
        for answer, size in zip(readers, sizes, strict=True):
            if size:
                answer.read_at = self._n_steps
                is_last = size == self._n_pending(answer.session)
                (last if is_last else pieces).append((answer.session, size))
        outcomes = self._timed(pieces, self._rounds.read)
        return outcomes + self._timed(last, lambda sessions, _: self._rounds.run(sessions))

    def _timed(
        self,
        pieces: Sequence[tuple[Session, int]],
        read: Callable[[Sequence[Session], Sequence[int]], list[Outcome]],
    ) -> list[Outcome]:
        """Read pieces, in one pass or one by one, and learn what they cost."""
        outcomes: list[Outcome] = []
        sizes = dict(pieces)
        for group in self._passes(list(sizes)):
            started = perf_counter()
            outcomes += read(group, [sizes[session] for session in group])
            self._pace.saw(sum(sizes[session] for session in group), perf_counter() - started)
        return outcomes

    def _n_pending(self, session: Session) -> int:
        return len(session.context) - self._target.length(session.slot)

    def _is_reading(self, answer: Answer) -> bool:
        """Whether more than the next token's own predecessor has to be read."""
        return not self._prefixes.is_read(answer.session)

    def _goal(self, answer: Answer) -> int:
        """Tokens to read; the last one is left where others copy, as all of them need its row."""
        is_followed = any(each.leader is answer for each in self.running)
        return self._n_pending(answer.session) - is_followed

    def _session(self, slot: int, request: Request, index: int) -> Session:
        params = request.params
        seed = params.seed if params.rule == "coupled" else None
        return Session(
            index=index,
            slot=slot,
            prompt=request.prompt.ids,
            params=params,
            vocab=self._target.vocab,
            n_ctx=self._target.info.n_ctx,
            noise=None if seed is None else Noise(seed, index),
            source=RandomSource(self._generator()),
            speculation=self.speculation(params),
        )

    def _progress(self, outcome: Outcome) -> Progress:
        """The events of an outcome; an answer that is over gives its slot back."""
        session = outcome.session
        answer = self._running[session.slot]
        if outcome.round is None:
            self._close(answer)
            return Progress(answer=answer, error=outcome.error)
        now, events = self._clock.now, list[Event]()
        each = outcome.round
        if answer.seen_s is None:
            events.append(self._started(answer, now))
        else:
            own_s = each.draft_s + each.verify_s + each.other_s
            each = replace(each, waited_s=max(0.0, now - answer.seen_s - own_s))
        answer.seen_s = now
        events += [*outcome.tokens, each]
        if session.finish is not None:
            self._close(answer)
            events.append(session.finished())
        return Progress(answer=answer, events=tuple(events))

    def _started(self, answer: Answer, now: float) -> Started:
        session = answer.session
        return Started(
            index=session.index,
            prompt_tokens=session.n_prompt,
            cached_tokens=session.cached_tokens,
            seconds=now - answer.joined_s,
            speculation=session.speculation,
        )

    def _close(self, answer: Answer) -> None:
        """Give the slot back, its cache cut to committed tokens."""
        session, held = answer.session, 0
        slot = session.slot
        try:
            ending = self._schedule.end(slot)
            if ending is not None and session.speculation.enabled:
                session.stop_drafting(ending.reason, ending.n_tokens)
            self._drafting.end(session)
            # where going back is dear or impossible, a committed last token may stay
            pending = 1 if self._target.info.rollback == "cut" else 0
            keep = min(self._target.length(slot), session.n_held, len(session.context) - pending)
            self._target.truncate(slot, keep)
            held = keep
        except LeadoutError:
            pass  # nothing of the slot is used again
        finally:
            del self._running[slot]
            self._pool.release(slot, answer.request.prompt.client, session.context[:held])


def _why_off(
    target: Model, drafter: Drafter | None, schedule: Schedule, widths: frozenset[int] | None
) -> str:
    """Why nothing can be drafted for this target, or "" when something can."""
    if drafter is None:
        return "no draft was asked for"
    if target.info.rollback == "none":
        return target.info.rollback_reason
    return why_none_fits(schedule.longest, widths, target.info.name)
