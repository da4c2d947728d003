"""How prompts are read: in pieces between the rounds of those who are answered already.

Knows nothing of models; what a piece costs is learned from the pieces before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STALL_S = 0.2
"""Seconds that the answers of others may stand still in each round, for prompts that are read beside them."""

_LEAST = 32  # tokens; a shorter pass costs about as much
_KEEP = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Tokens of a prompt that are to be read, and the number of the step that read of it last."""

    n_tokens: int
    read_at: int


class ReadingPace:
    """Says how much of which prompts is read in a step.

    Parameters
    ----------
    longest : int >= 1
        Most tokens of a step.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._token_s: float | None = None  # what a token costs, once that is known

    def sizes(self, backlogs: Sequence[Backlog], *, is_alone: bool) -> list[int]:
        """Tokens to read of each prompt now, most of them 0.

        Prompts take turns, the one that waited longest first, so that a short one is not kept waiting by long
        ones.

        Parameters
        ----------
        backlogs : sequence of Backlog
        is_alone : bool
            True when nobody's answer stands still meanwhile.
        """
        left, n_waiting = self._longest if is_alone else self._bounded(), len(backlogs)
        sizes = [0] * len(backlogs)
        for at in sorted(range(len(backlogs)), key=lambda i: backlogs[i].read_at):
            share = max(_LEAST, left // n_waiting)
            sizes[at] = min(left, share, backlogs[at].n_tokens)
            left -= sizes[at]
            n_waiting -= 1
        return sizes

    def saw(self, n_tokens: int, seconds: float) -> None:
        """So many tokens were read in this time; short passes tell too little."""
        if n_tokens >= min(_LEAST, self._longest):
            token_s = seconds / n_tokens
            self._token_s = (
                token_s if self._token_s is None else _KEEP * self._token_s + (1 - _KEEP) * token_s
            )

    def _bounded(self) -> int:
        """Tokens that are read within `STALL_S`, as far as is known."""
        if self._token_s is None:
            return min(_LEAST, self._longest)
        return min(self._longest, max(_LEAST, int(STALL_S / max(self._token_s, 1e-9))))
