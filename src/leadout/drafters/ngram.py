"""Drafts by looking up what followed the last few tokens before: the longest match, and of those the latest.

Needs no model. A round costs the same however long the context is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadout.core.values import Proposal
from leadout.drafters.base import DraftPrompt, DraftRequest, worthwhile
from leadout.drafters.belief import belief
from leadout.errors import InputError

MAX_MATCH = 4
MIN_MATCH = 2
_MAX_LOOK_BACK = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Where the end of the text occurred before.

    Parameters
    ----------
    at : int
        Index of the token that followed.
    size : int
        Tokens of the n-gram that matched.
    n_seen : int
        How often it occurred.
    n_same : int
        How often of late, without a break, the same token followed.
    """

    at: int
    size: int
    n_seen: int
    n_same: int


@dataclass(frozen=True, slots=True)
class _Follower:
    """What followed an n-gram: where last, which token, how often anything did, and that token in a row."""

    at: int
    token: int
    n_seen: int
    n_same: int


class NgramIndex:
    """What followed each n-gram of a growing text, and how regularly.

    An n-gram is entered only when the token after it arrives, so the end of the text never matches itself.
    """

    def __init__(self, min_match: int, max_match: int) -> None:
        self._sizes = range(max_match, min_match - 1, -1)  # longest first
        self._next: dict[tuple[int, ...], _Follower] = {}
        self._tail: tuple[int, ...] = ()
        self._length = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Append `tokens` to the text; O(len(tokens))."""
        longest = self._sizes[0]
        for token in tokens:
            for size in self._sizes:
                if size <= len(self._tail):
                    self._enter(self._tail[-size:], token)
            self._tail = (*self._tail, token)[-longest:]
            self._length += 1

    def _enter(self, ngram: tuple[int, ...], token: int) -> None:
        known = self._next.get(ngram)
        if known is None:
            self._next[ngram] = _Follower(self._length, token, 1, 1)
        else:
            n_same = known.n_same + 1 if known.token == token else 1
            self._next[ngram] = _Follower(self._length, token, known.n_seen + 1, n_same)

    def match(self) -> Match | None:
        """The latest occurrence of the longest known n-gram at the end of the text."""
        for size in self._sizes:
            known = self._next.get(self._tail[-size:]) if size <= len(self._tail) else None
            if known is not None:
                return Match(at=known.at, size=size, n_seen=known.n_seen, n_same=known.n_same)
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

    def begin(self, slot: int, prompt: DraftPrompt) -> None:
        """Index the prompt."""
        self._indexes[slot] = NgramIndex(self._min, self._max)
        self._indexes[slot].extend(prompt.ids)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        """Continuations of the longest, latest matches, as far as they are worth it; may be empty."""
        return [worthwhile(self.look_up(request), request.judge) for request in requests]

    def look_up(self, request: DraftRequest) -> Proposal:
        """The continuation of the longest, latest match."""
        match = self._indexes[request.slot].match()
        if match is None or request.k == 0:
            return Proposal(drafter=self.name)
        context, period, k = request.context, len(request.context) - match.at, request.k
        tokens = list(context[match.at : match.at + min(k, period)])
        while len(tokens) < k:
            tokens.append(tokens[-period])
        return Proposal(tokens=tuple(tokens), drafter=self.name, confidences=_confidences(match, context, k))

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """Index what was committed."""
        self._indexes[slot].extend(committed)

    def end(self, slot: int) -> None:
        """Drop the index of the slot."""
        self._indexes.pop(slot, None)

    def blocked(self, slot: int) -> str:  # noqa: ARG002
        """Never: an empty lookup is not a block."""
        return ""

    def limited(self, slot: int) -> str:  # noqa: ARG002
        """Never: it has no parts."""
        return ""

    def close(self) -> None:
        """Drop all indexes."""
        self._indexes.clear()


def _confidences(match: Match, context: Sequence[int], k: int) -> tuple[float, ...]:
    """Belief in each token of the continuation, given those before it; doubt shrinks with the whole match."""
    size = match.size
    while size < min(_MAX_LOOK_BACK, match.at) and context[match.at - size - 1] == context[-size - 1]:
        size += 1
    first = belief(match.n_same, match.n_seen, size)
    return (first, *(belief(1, 1, size + i) for i in range(1, k)))
