"""Drafts by looking up what followed the last few tokens before: the longest match, and of those the latest.

Needs no model. A round costs the same however long the context is.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadout.core.values import Proposal
from leadout.drafters.base import DraftRequest
from leadout.errors import InputError

MAX_MATCH = 4
MIN_MATCH = 2


class NgramIndex:
    """Where each n-gram of a growing text was last followed by something.

    An n-gram is entered only when the token after it arrives, so the end of the text never matches itself.
    """

    def __init__(self, min_match: int, max_match: int) -> None:
        self._sizes = range(max_match, min_match - 1, -1)  # longest first
        self._next: dict[tuple[int, ...], int] = {}
        self._tail: tuple[int, ...] = ()
        self._length = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Append `tokens` to the text; O(len(tokens))."""
        longest = self._sizes[0]
        for token in tokens:
            for size in self._sizes:
                if size <= len(self._tail):
                    self._next[self._tail[-size:]] = self._length
            self._tail = (*self._tail, token)[-longest:]
            self._length += 1

    def match(self) -> int | None:
        """Index of the token that followed the latest occurrence of the longest known n-gram at the end."""
        for size in self._sizes:
            if size <= len(self._tail):
                at = self._next.get(self._tail[-size:])
                if at is not None:
                    return at
        return None


class NgramDrafter:
    """Proposes what followed the last `max_match` .. `min_match` tokens when they last occurred.

    A continuation that reaches the end of the text goes on through its own proposal, so that a text with a
    period is continued periodically.

    Parameters
    ----------
    min_match, max_match : int
        Shortest and longest n-gram looked up, 1 <= min_match <= max_match.

    Raises
    ------
    InputError
        If the lengths are not such.
    """

    def __init__(self, min_match: int = MIN_MATCH, max_match: int = MAX_MATCH) -> None:
        if not 1 <= min_match <= max_match:
            raise InputError(
                f"an n-gram drafter needs 1 <= min_match <= max_match, got {min_match}, {max_match}"
            )
        self._min, self._max = min_match, max_match
        self._indexes: dict[int, NgramIndex] = {}

    @property
    def name(self) -> str:
        """The name in reports."""
        return "ngram"

    def begin(self, slot: int, prompt: Sequence[int]) -> None:
        """Index the prompt."""
        self._indexes[slot] = NgramIndex(self._min, self._max)
        self._indexes[slot].extend(prompt)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """Continuations of the longest, latest matches; empty where nothing matches."""
        return [self._continue(request) for request in requests]

    def _continue(self, request: DraftRequest) -> Proposal:
        start = self._indexes[request.slot].match()
        if start is None or request.k == 0:
            return Proposal(drafter=self.name)
        context, period = request.context, len(request.context) - start
        tokens = [context[start + i] for i in range(min(request.k, period))]
        while len(tokens) < request.k:
            tokens.append(tokens[-period])
        return Proposal(tokens=tuple(tokens), drafter=self.name)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Index what was committed."""
        self._indexes[slot].extend(committed)

    def end(self, slot: int) -> None:
        """Drop the index of the slot."""
        self._indexes.pop(slot, None)

    def blocked(self, slot: int) -> str:  # noqa: ARG002
        """Never: an empty lookup is not a block."""
        return ""

    def close(self) -> None:
        """Drop all indexes."""
        self._indexes.clear()
