"""What lookups proposed and was not verified: the answer tells for free whether it would have stood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadout.core.values import Proposal
from leadout.drafters.base import Untried


@dataclass(slots=True)
class _Watched:
    """A proposal, how many of its tokens are verified, and how many came."""

    proposal: Proposal
    position: int
    verified: int
    stood: int = 0

    def told(self, *, failed: bool) -> Untried:
        return Untried(
            drafter=self.proposal.drafter,
            confidences=self.proposal.confidences,
            position=self.position,
            verified=self.verified,
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

    def watch(self, slot: int, proposal: Proposal, position: int, verified: int = 0) -> None:
        """Of this only the first `verified` tokens are verified now.

        Of no interest where nothing is left, or another one of the same lookup is watched already.
        """
        if len(proposal.tokens) > verified and proposal.drafter not in self._watched[slot]:
            self._watched[slot][proposal.drafter] = _Watched(proposal, position, verified)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """These tokens came."""
        for drafter, watched in list(self._watched[slot].items()):
            tokens = watched.proposal.tokens
            for token in committed:
                failed = token != tokens[watched.stood]
                watched.stood += not failed
                if failed or watched.stood == len(tokens):
                    del self._watched[slot][drafter]
                    if watched.stood >= watched.verified:  # else verifying has shown it
                        self._news[slot].append(watched.told(failed=failed))
                    break

    def news(self, slot: int) -> list[Untried]:
        """What became known since it was asked last."""
        known, self._news[slot] = self._news[slot], []
        return known
