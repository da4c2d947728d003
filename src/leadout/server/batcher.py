"""Runs an engine's requests together, on a thread of its own; each is read as an asynchronous generator.

Memory for the caches is taken when a model is loaded, for every slot and all of its context. So admission is
by slots: a free one is memory for a whole request, nobody is put out, and who finds none waits in the queue.
What waits is bounded; beyond that a request is refused with the time after which to try again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import monotonic

from leadout.checks import check_whole
from leadout.engine.answer import Answer, Request
from leadout.engine.batch import Batch
from leadout.engine.engine import Engine, Prompt
from leadout.engine.events import Event, Finished, Started
from leadout.engine.params import Params
from leadout.errors import BackendError, BusyError, ClosingError
from leadout.models.conversation import Conversation
from leadout.server.fair_queue import FairQueue

_SHORT = 2000
"""Characters or ids that are written out and tokenised in a fraction of a token's time."""
_KEEP = 0.8
_LEAST_RETRY_S, _MOST_RETRY_S = 1.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much there is to do at this moment.

    Parameters
    ----------
    slots : int
        Answers that can run together.
    running : int
        Answers that do.
    queued : int
        Requests of which some answer still waits for a slot.
    cached_tokens, capacity_tokens : int
        Tokens that the caches of all slots hold, and could hold.
    """

    slots: int
    running: int
    queued: int
    cached_tokens: int
    capacity_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parcel:
    """Events for a reader; the last parcel ends the request, with an error if it has one."""

    events: Sequence[Event] = ()
    error: Exception | None = None
    is_last: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class _Ticket:
    """A request from `submit` to its last parcel."""

    request: Request
    client: str
    loop: asyncio.AbstractEventLoop
    waiting: deque[int]  # answers that have not joined yet
    n_left: int  # answers that are not over
    parcels: asyncio.Queue[_Parcel] = field(default_factory=asyncio.Queue)
    answers: list[Answer] = field(default_factory=list)
    submitted_s: float = field(default_factory=monotonic)


class Batcher:
    """Runs an engine's requests together, on a thread of its own.

    Parameters
    ----------
    engine : Engine
        Leased until the batcher is closed; closing it is the caller's business, afterwards.
    max_queued : int >= 0
        Requests that may wait for a slot.

    Raises
    ------
    InputError
        If the engine is busy or closed, or `max_queued` is negative.
    """

    def __init__(self, engine: Engine, *, max_queued: int = 64) -> None:
        check_whole("max_queued", max_queued, 0)
        self._engine, self._max_queued = engine, max_queued
        info = engine.target.info
        self._n_slots, self._capacity = info.n_slots, info.n_slots * info.n_ctx
        self._lease = ExitStack()
        self._batch: Batch = self._lease.enter_context(engine.lease())
        # What follows is shared with readers and guarded by `_changed`; the rest is the thread's own.
        self._changed = threading.Condition()
        self._queue: FairQueue[_Ticket] = FairQueue()
        self._left: list[_Ticket] = []  # whose readers went away
        self._deadline: float | None = None  # once it is closing
        self._usual_s = _LEAST_RETRY_S
        self._load = (0, 0)  # running answers and cached tokens
        self._tickets: dict[Answer, _Ticket] = {}
        self._thread = threading.Thread(target=self._work, name="leadout-batcher", daemon=True)
        self._thread.start()

    async def events(
        self, prompt: Prompt, params: Params, *, client: str = ""
    ) -> AsyncGenerator[Event, None]:
        """The events of a request, as they come; those of several answers interleave.

        Closing the generator, or cancelling the task that reads it, ends the request within a round, whether
        it waits, its prompt is being read or it is being answered.

        Parameters
        ----------
        prompt : str, sequence of int or Conversation
        params : Params
        client : str
            Whose request it is: slots are shared fairly between clients, and what is remembered of one is
            never drafted for another.

        Raises
        ------
        InputError, PromptTooLongError
            As `Engine.stream` does, before the first event.
        BusyError
            If too many requests wait already, before the first event.
        ClosingError
            If the batcher is closing and the request has not begun, or not all of its answers.
        BackendError
            If the model fails.
        """
        self._require_room()
        if _is_short(prompt):
            request = self._engine.request(prompt, params, client=client)
        else:  # it takes a while to write out, and nobody else's tokens should wait for that
            request = await asyncio.to_thread(self._engine.request, prompt, params, client=client)
        ticket = _Ticket(
            request=request,
            client=client,
            loop=asyncio.get_running_loop(),
            waiting=deque(range(params.n)),
            n_left=params.n,
        )
        self._submit(ticket)
        is_over = False
        try:
            while not is_over:
                parcel = await ticket.parcels.get()
                is_over = parcel.is_last
                for event in parcel.events:
                    yield event
                if parcel.error is not None:
                    raise parcel.error
        finally:
            if not is_over:
                with self._changed:
                    self._left.append(ticket)
                    self._changed.notify()

    @property
    def load(self) -> Load:
        """How much there is to do at this moment."""
        with self._changed:
            running, cached = self._load
            return Load(
                slots=self._n_slots,
                running=running,
                queued=len(self._queue),
                cached_tokens=cached,
                capacity_tokens=self._capacity,
            )

    async def close(self, grace_s: float = 10.0) -> None:
        """Refuse what is new and what waits, let what runs go on for `grace_s` seconds, then cancel it."""
        with self._changed:
            deadline = monotonic() + grace_s
            self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _require_room(self) -> None:
        with self._changed:
            if self._deadline is not None:
                raise ClosingError(_LEAST_RETRY_S)
            n_queued = len(self._queue)
            if n_queued >= self._max_queued + self._batch.n_free:
                rounds = 1 + n_queued // self._n_slots
                retry_s = min(_MOST_RETRY_S, max(_LEAST_RETRY_S, self._usual_s * rounds))
                raise BusyError(
                    f"{n_queued} requests wait already and {self._max_queued} may; "
                    f"try again in {retry_s:.0f} s",
                    retry_s,
                )

    def _submit(self, ticket: _Ticket) -> None:
        with self._changed:
            self._require_room()
            self._queue.push(ticket.client, ticket)
            self._changed.notify()

    def _work(self) -> None:
        """The thread: between steps requests come and go."""
        with self._lease:
            try:
                while self._wait() and not self._batch.is_closed:
                    self._let_go()
                    self._admit()
                    if self._tickets:
                        self._step()
                    with self._changed:
                        self._load = (len(self._batch.running), self._batch.n_cached)
            finally:
                self._end()

    def _wait(self) -> bool:
        """Sleep until there is something to do; False when there will be nothing any more."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._tickets or len(self._queue) or self._left or self._deadline is not None
            )
            if self._deadline is None:
                return True
            is_late = monotonic() >= self._deadline
            refused = [ticket for ticket in self._queue if is_late or not ticket.answers]
        for ticket in refused:
            self._fail(ticket, ClosingError(_LEAST_RETRY_S))
        if is_late:
            self._cancel_all()
        with self._changed:
            return bool(self._tickets or len(self._queue))

    def _let_go(self) -> None:
        """Drop the requests that nobody reads any more."""
        with self._changed:
            left, self._left = self._left, []
            for ticket in left:
                self._queue.remove(ticket.client, ticket)
        for ticket in left:
            self._drop(ticket)

    def _admit(self) -> None:
        """Let waiting answers join while there are slots."""
        while self._batch.n_free:
            at_work = Counter(ticket.client for ticket in self._tickets.values())
            with self._changed:
                ticket = self._queue.first(at_work)
                if ticket is None:
                    return
                index = ticket.waiting.popleft()
                self._queue.served(ticket.client)
                if not ticket.waiting:
                    self._queue.remove(ticket.client, ticket)
            try:
                answer = self._batch.join(ticket.request, index)
            except Exception as error:
                self._fail(ticket, error)
                continue
            ticket.answers.append(answer)
            self._tickets[answer] = ticket

    def _step(self) -> None:
        """One round of everything that runs."""
        try:
            progress = self._batch.step()
        except Exception as error:  # whatever it is, nobody waits in vain
            for ticket in set(self._tickets.values()):
                self._fail(ticket, error)
            return
        for each in progress:
            if each.answer not in self._tickets:
                continue  # another answer of the same request failed in this step
            if each.error is not None:
                self._fail(self._tickets[each.answer], each.error)
            else:
                self._pass_on(self._tickets[each.answer], each.answer, each.events)

    def _pass_on(self, ticket: _Ticket, answer: Answer, events: Sequence[Event]) -> None:
        """Give a reader what came of an answer."""
        if isinstance(events[0], Started):
            queued_s = monotonic() - ticket.submitted_s - events[0].seconds
            events = [replace(events[0], queued_s=max(0.0, queued_s)), *events[1:]]
        if isinstance(events[-1], Finished):
            del self._tickets[answer]
            ticket.n_left -= 1
            if not ticket.n_left:
                taken_s = monotonic() - ticket.submitted_s
                self._usual_s = _KEEP * self._usual_s + (1 - _KEEP) * taken_s
        self._send(ticket, _Parcel(events=events, is_last=not ticket.n_left))

    def _fail(self, ticket: _Ticket, error: Exception) -> None:
        """End a request with an error."""
        with self._changed:
            self._queue.remove(ticket.client, ticket)
        self._drop(ticket)
        self._send(ticket, _Parcel(error=error, is_last=True))

    def _drop(self, ticket: _Ticket) -> None:
        """Take a request's answers out of the batch."""
        for answer in ticket.answers:
            self._batch.leave(answer)
            self._tickets.pop(answer, None)

    def _cancel_all(self) -> None:
        """End what runs, as cancelled."""
        for answer, ticket in list(self._tickets.items()):
            self._pass_on(ticket, answer, self._batch.leave(answer))

    def _end(self) -> None:
        """Nothing is run any more, for whatever reason: nobody is left waiting."""
        with self._changed:
            self._deadline = monotonic()
            waiting = list(self._queue)
            self._load = (0, self._batch.n_cached)
        gone = BackendError("the server stopped before this request was answered")
        for ticket in {*waiting, *self._tickets.values()}:
            self._send(ticket, _Parcel(error=gone, is_last=True))

    def _send(self, ticket: _Ticket, parcel: _Parcel) -> None:
        try:
            ticket.loop.call_soon_threadsafe(ticket.parcels.put_nowait, parcel)
        except RuntimeError:  # the reader's loop is closed, and so is the reader
            with self._changed:
                self._left.append(ticket)


def _is_short(prompt: Prompt) -> bool:
    """Whether a prompt is quickly written out; tools and what else is no text never are."""
    if not isinstance(prompt, Conversation):
        return len(prompt) <= _SHORT
    values = [value for message in prompt.messages for value in message.values()]
    return not prompt.tools and sum(len(v) if isinstance(v, str) else _SHORT + 1 for v in values) <= _SHORT
