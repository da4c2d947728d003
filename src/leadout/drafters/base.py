"""The Drafter seam: one interface for draft models, lookups and everything between.

A drafter cannot change what is said, only how soon; the verification rules see to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leadout.core.noise import Noise, Source
from leadout.core.values import History, Proposal, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """Asks for up to `k` tokens after `context`.

    Parameters
    ----------
    slot : int
        The slot that `begin` was called for.
    context : sequence of int
        Prompt and committed answer; read only, never kept.
    k : int >= 1
        The longest proposal that is wanted; shorter ones, and empty ones, are allowed.
    sampling : Sampling
        The request's law; a drafter that draws must draw from its own `q` shaped by the same law.
    history : History
        What penalties look at, before the first proposed token.
    position : int
        Index in the answer of the first proposed token; keys the noise.
    noise : Noise or None
        For seeded requests: the noise to draw with, shared with the verification.
    source : Source
        Where unseeded draws come from.
    """

    slot: int
    context: Sequence[int]
    k: int
    sampling: Sampling
    history: History
    position: int
    noise: Noise | None
    source: Source


class Drafter(Protocol):
    """Proposes tokens for slots; keeps per-request state between `begin` and `end` only."""

    @property
    def name(self) -> str:
        """Short name for reports, such as "ngram" or the draft model's name."""

    def begin(self, slot: int, prompt: Sequence[int]) -> None:
        """A request with this prompt starts in `slot`; what the slot held may be reused where it matches."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """One proposal per request, in order; all slots together."""

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """These tokens were committed to `slot` after the last proposal."""

    def end(self, slot: int) -> None:
        """The request in `slot` is over."""

    def blocked(self, slot: int) -> str:
        """Why this drafter cannot draft for `slot` any more ("the draft context is full"), or ""."""

    def close(self) -> None:
        """Free what the drafter holds. Closing twice is allowed."""
