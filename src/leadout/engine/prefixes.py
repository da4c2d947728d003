"""What caches share: a prompt takes over what its client's slots hold of it, and waits for who reads more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from leadout.drafters.prefix import common_prefix
from leadout.engine.answer import Answer
from leadout.engine.session import Session
from leadout.engine.slots import SlotPool
from leadout.errors import RollbackError
from leadout.models.base import Model

_WORTH_COPYING = 1 / 64  # of what a slot holds: a copy may take time for all of it


class Prefixes:
    """Copies prefixes between the slots of a target, as far as it can.

    Parameters
    ----------
    target : Model
    pool : SlotPool
        The free slots.
    running : mapping of slot to Answer
        The others; it changes as answers come and go.
    """

    def __init__(self, target: Model, pool: SlotPool, running: Mapping[int, Answer]) -> None:
        self._target, self._pool, self._running = target, pool, running

    def settle(self, answer: Answer, shared: int) -> None:
        """Bring the cache of an answer that joins to as much of its prompt as can be had.

        Parameters
        ----------
        answer : Answer
        shared : int
            Leading tokens of its prompt that its slot holds.
        """
        self._keep(answer.session, min(shared, answer.session.n_prompt - 1))
        if self._target.info.copying != "none":
            self._take_over(answer)

    def is_read(self, session: Session) -> bool:
        """Whether nothing but the last token has to be read."""
        return len(session.context) - self._target.length(session.slot) <= 1

    def follow(self) -> None:
        """Let those who wait for another's reading copy what is there by now."""
        for answer in list(self._running.values()):
            leader = answer.leader
            if leader is None:
                continue
            lead = leader.session
            shared = common_prefix(lead.context[:-1], answer.session.context[:-1])
            if self._running.get(lead.slot) is not leader or lead.n_held >= shared:
                answer.leader = None
                self._take_over(answer)

    def _take_over(self, answer: Answer) -> None:
        """Copy what another slot holds of the prompt, and follow who is about to read more of it."""
        session, copying = answer.session, self._target.info.copying
        prompt = answer.request.prompt.ids
        wanted, have = prompt[: len(prompt) - 1], session.n_held
        best, most = None, have
        for slot, held, n_held in self._others(answer):
            shared = min(common_prefix(held, wanted), n_held)
            is_whole = copying == "any" or shared == n_held
            if is_whole and shared > most and shared - have >= _WORTH_COPYING * n_held:
                best, most = slot, shared
        if best is not None:
            self._copy(session, best, most)
        answer.leader = self._leader(answer, wanted)

    def _others(self, answer: Answer) -> Iterator[tuple[int, Sequence[int], int]]:
        """Every other slot: what it holds for this client, and how much of that is in its cache."""
        for slot, held in self._pool.free(answer.request.prompt.client):
            yield slot, held, len(held)
        for other in self._beside(answer):
            yield other.session.slot, other.session.context, other.session.n_held

    def _beside(self, answer: Answer) -> Iterator[Answer]:
        """The other answers in progress to the same client."""
        client = answer.request.prompt.client
        for other in self._running.values():
            if other is not answer and other.request.prompt.client == client:
                yield other

    def _copy(self, session: Session, source: int, length: int) -> None:
        try:
            self._target.copy(source, session.slot, length)
        except RollbackError:
            self._target.truncate(session.slot, 0)
        session.n_held = session.cached_tokens = self._target.length(session.slot)

    def _leader(self, answer: Answer, wanted: Sequence[int]) -> Answer | None:
        """Who is reading, and will hold more of `wanted` than is held now."""
        best, most = None, answer.session.n_held
        for other in self._beside(answer):
            lead = other.session
            if other.leader is not None or self.is_read(lead):
                continue
            shared = common_prefix(lead.context[:-1], wanted)
            is_whole = self._target.info.copying == "any" or shared == len(lead.context) - 1
            if is_whole and shared > most:
                best, most = other, shared
        return best

    def _keep(self, session: Session, length: int) -> None:
        """Cut the slot's cache to its first `length` tokens."""
        with suppress(RollbackError):  # the slot is empty then
            self._target.truncate(session.slot, length)
        session.n_held = session.cached_tokens = self._target.length(session.slot)
