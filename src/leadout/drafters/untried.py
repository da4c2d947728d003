"""What lookups proposed and nobody verified: the answer tells for free whether it would have stood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadout.core.values import Proposal
from leadout.drafters.base import Untried


@dataclass(slots=True)
class _Watched:
    """A proposal, and how many of its tokens came."""

    proposal: Proposal
    position: int
    stood: int = 0

    def told(self, *, failed: bool) -> Untried:
        return Untried(
            drafter=self.proposal.drafter,
            confidences=self.proposal.confidences,
            position=self.position,
            stood=self.stood,
            failed=failed,
        )


class UntriedProposals:
    """Watches one proposal of each lookup in each slot, until a token differs or all came."""

    def __init__(self) -> None:
        self._watched: dict[int, dict[str, _Watched]] = {}
        self._news: dict[int, list[Untried]] = {}

    def begin(self, slot: int) -> None:
        """A request starts."""
        self._watched[slot], self._news[slot] = {}, []

    def end(self, slot: int) -> None:
        """It is over."""
        self._watched.pop(slot, None)
        self._news.pop(slot, None)

    def watch(self, slot: int, proposal: Proposal, position: int) -> None:
        """This is not verified; of no interest where another one of the same lookup is watched already."""
        if proposal.tokens and proposal.drafter not in self._watched[slot]:
            self._watched[slot][proposal.drafter] = _Watched(proposal, position)

    def leave(self, slot: int, drafter: str) -> None:
        """A proposal of this lookup is verified: that one tells what the watched one would."""
        watched = self._watched[slot].pop(drafter, None)
        if watched is not None and watched.stood:
            self._news[slot].append(watched.told(failed=False))

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """These tokens came."""
        for drafter, watched in list(self._watched[slot].items()):
            tokens = watched.proposal.tokens
            for token in committed:
                failed = token != tokens[watched.stood]
                watched.stood += not failed
                if failed or watched.stood == len(tokens):
                    self._news[slot].append(watched.told(failed=failed))
                    del self._watched[slot][drafter]
                    break

    def news(self, slot: int) -> list[Untried]:
        """What became known since it was asked last."""
        known, self._news[slot] = self._news[slot], []
        return known
