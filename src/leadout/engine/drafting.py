"""The drafter as rounds see it: whatever becomes of it, answers go on.

A drafter cannot change what is said, so one that fails costs a request its drafts and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadout.core.values import Proposal
from leadout.drafters.base import Drafter, DraftPrompt, DraftRequest
from leadout.engine.session import Session

NO_PROPOSAL = Proposal()


class Drafting:
    """Tells a drafter of sessions, and takes it away from those for which it fails.

    Parameters
    ----------
    drafter : Drafter or None
        None when nothing can be drafted for this target; then no session may have speculation enabled.
    """

    def __init__(self, drafter: Drafter | None) -> None:
        self._drafter = drafter
        self._slots: set[int] = set()  # that the drafter was told of

    def begin(self, session: Session, prompt: DraftPrompt) -> None:
        """A request starts."""
        drafter = self._drafter
        if drafter is None or not session.speculation.enabled:
            return
        self._slots.add(session.slot)
        try:
            drafter.begin(session.slot, prompt)
            self._heed(drafter, session)
        except Exception as error:
            self._give_up([session], error)

    def propose(self, sessions: Sequence[Session], requests: Sequence[DraftRequest]) -> list[Proposal]:
        """One proposal for each request, which belongs to the session at its place."""
        nothing = [NO_PROPOSAL for _ in requests]
        if self._drafter is None:
            return nothing
        try:
            proposals = self._drafter.propose(requests)
        except Exception as error:
            self._give_up(sessions, error)
            return nothing
        return proposals

    def observe(self, session: Session, committed: Sequence[int]) -> None:
        """These tokens were committed."""
        drafter = self._drafter
        if drafter is None or not session.speculation.enabled:
            return
        try:
            drafter.observe(session.slot, committed)
            self._heed(drafter, session)
        except Exception as error:
            self._give_up([session], error)

    def end(self, session: Session) -> None:
        """The request is over."""
        if self._drafter is None or session.slot not in self._slots:
            return
        self._slots.remove(session.slot)
        try:
            self._drafter.end(session.slot)
        except Exception as error:
            session.stop_drafting(_failure(error))

    def _heed(self, drafter: Drafter, session: Session) -> None:
        """Take note of what the drafter says of itself."""
        why = drafter.blocked(session.slot)
        if why:
            session.stop_drafting(why)
        else:
            session.note_limit(drafter.limited(session.slot))

    def _give_up(self, sessions: Sequence[Session], error: Exception) -> None:
        for session in sessions:
            session.stop_drafting(_failure(error))
            self.end(session)


def _failure(error: Exception) -> str:
    return f"the drafter failed: {type(error).__name__}: {error}"
