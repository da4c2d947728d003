"""Where the end of a text has occurred before: the longest such match, and what followed it each time.

An index of chained hashes, as LZ77 compressors use them: for contexts of 2, 4, 8, .. 64 tokens, `heads` has
the latest place with that hash and `links` leads from each place to the one before it. Everything lies in
arrays that are doubled until they have the size that was allowed, and no other step depends on how much is
indexed. Knows no drafting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leadout.errors import InputError

LEVELS = (2, 4, 8, 16, 32, 64)
"""Context lengths that are looked up directly; a match may have any length from the first to the last."""

MAX_MATCH = LEVELS[-1]
MAX_PLACES = 32
"""Occurrences that are looked at: the latest ones of the longest context in `LEVELS` that occurred."""

BYTES_PER_TOKEN = 4 * (1 + 2 * len(LEVELS))
"""Memory of an index, per token of its capacity: the token, and a head and a link for each level."""

MIN_CAPACITY = 4
MAX_TOKEN = 2**31 - 1

_FIRST_ROOM = 2048  # tokens; a page of memory that was never touched costs more than a token
_BOUNDARY = -1  # stands before each text, and is no token
_MAX_STEPS = 4 * MAX_PLACES  # along one chain, places of other contexts with the same hash included


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The longest match found.

    Parameters
    ----------
    length : int
        Tokens that match, 0..MAX_MATCH; 0 when nothing does.
    places : tuple of int
        Indices of the tokens that followed, oldest first.
    """

    length: int = 0
    places: tuple[int, ...] = ()


NO_MATCH = Match()


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a text, and what its contexts are looked up by.

    Parameters
    ----------
    tokens : tuple of int
        At most MAX_MATCH.
    hashes : tuple of int
        Of the context of each length in `LEVELS` that is there.
    """

    tokens: tuple[int, ...] = ()
    hashes: tuple[int, ...] = ()

    @classmethod
    def of(cls, tokens: Sequence[int]) -> Tail:
        """The end of these."""
        end = tuple(tokens[-MAX_MATCH:])
        n = len(end)
        return cls(end, tuple([hash(end[-size:]) for size in LEVELS if size <= n]))


class SuffixIndex:
    """Texts, one after the other, and where their contexts occur; the oldest tokens are forgotten when full.

    A context is entered only when the token after it arrives, so the end of a text never matches itself, and
    every match has a continuation. No context reaches across two texts.

    Parameters
    ----------
    capacity : int >= 4
        Most tokens that are kept, one per text included; when full the index takes `BYTES_PER_TOKEN` for
        each.

    Raises
    ------
    InputError
        If the capacity is smaller.
    """

    def __init__(self, capacity: int) -> None:
        self.check(capacity)
        self._capacity = capacity
        self._n_buckets = capacity >> max(0, (capacity - 1) // _FIRST_ROOM).bit_length()
        self._token_array = np.zeros(self._n_buckets, dtype=np.int32)
        self._head_array = np.zeros((len(LEVELS), self._n_buckets), dtype=np.int32)
        self._link_array = np.zeros((self._n_buckets, len(LEVELS)), dtype=np.int32)
        self._view()
        self._size = 0
        self._run = 0  # tokens of the last text that are still here
        self._tail = Tail()

    @staticmethod
    def check(capacity: int) -> None:
        """Raise InputError if an index of this capacity is too small."""
        if capacity < MIN_CAPACITY:
            raise InputError(f"a suffix index needs room for at least {MIN_CAPACITY} tokens, got {capacity}")

    def __len__(self) -> int:
        """Tokens kept, and one for the start of each text."""
        return self._size

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        return self._token_array.nbytes + self._head_array.nbytes + self._link_array.nbytes

    @property
    def tail(self) -> Tail:
        """The end of the last text."""
        return self._tail

    def start(self) -> None:
        """Begin another text."""
        self._append(_BOUNDARY)
        self._run, self._tail = 0, Tail()

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens, each in 0..MAX_TOKEN, to the last text; O(len(tokens))."""
        for token in tokens:
            self._append(token)
            self._run += 1
            self._tail = Tail.of((*self._tail.tokens, token))

    def match(self, tail: Tail) -> Match:
        """The longest match of the end of a text.

        Looked at are the latest MAX_PLACES occurrences of the longest context of `LEVELS` that occurred; the
        longest match among them is found, and all places of that length.
        """
        for level in reversed(range(len(tail.hashes))):
            size, heads, links = self._levels[level]
            latest = heads[tail.hashes[level] % self._n_buckets]
            if not latest:
                continue
            context = tail.tokens[-size:]
            lengths = {at: self._length(tail.tokens, at, size) for at in self._chain(context, latest, links)}
            if lengths:
                longest = max(lengths.values())
                places = [at for at, length in lengths.items() if length == longest]
                return Match(length=longest, places=tuple(reversed(places)))
        return NO_MATCH

    def following(self, place: int, n: int) -> list[int]:
        """At most `n` tokens from `place` on, up to the end of that text."""
        tokens = self._tokens[place : min(place + n, self._size)].tolist()
        return tokens[: tokens.index(_BOUNDARY)] if _BOUNDARY in tokens else tokens

    def texts(self) -> Iterator[list[int]]:
        """What is kept, oldest text first; the first may lack its beginning."""
        text: list[int] = []
        for token in self._tokens[: self._size].tolist():
            if token != _BOUNDARY:
                text.append(token)
            elif text:
                yield text
                text = []
        if text:
            yield text

    def _append(self, token: int) -> None:
        if self._size == self._capacity:
            self._forget(self._capacity // 4)
        elif self._size == len(self._tokens):
            self._grow()
        at = self._size
        if token != _BOUNDARY:
            for (size, heads, links), context in zip(self._levels, self._tail.hashes, strict=False):
                if size > self._run:  # forgotten in part
                    break
                bucket = context % self._n_buckets
                links[at] = heads[bucket]
                heads[bucket] = at
        self._tokens[at] = token
        self._size = at + 1

    def _chain(self, context: tuple[int, ...], at: int, links: memoryview) -> Iterator[int]:
        """Places where `context` came before, latest first, from `at` along the links."""
        size, n_found = len(context), 0
        for _ in range(_MAX_STEPS):
            if at < size or n_found == MAX_PLACES:  # 0 ends a chain; below `size` the context is forgotten
                return
            if tuple(self._tokens[at - size : at]) == context:
                yield at
                n_found += 1
            at = links[at]

    def _length(self, tail: tuple[int, ...], at: int, length: int) -> int:
        """How many tokens before `at` are those at the end of `tail`, when `length` are."""
        limit = min(at, len(tail))
        while length < limit and self._tokens[at - length - 1] == tail[-length - 1]:
            length += 1
        return length

    def _forget(self, n: int) -> None:
        """Forget the oldest n tokens, and every place that depends on them."""
        self._size -= n
        self._run = min(self._run, self._size)
        self._token_array[: self._size] = self._token_array[n:]
        self._link_array[: self._size] = self._link_array[n:]
        for places in (self._head_array, self._link_array):
            np.subtract(places, n, out=places)
            np.maximum(places, 0, out=places)

    def _grow(self) -> None:
        """Twice the room. Each bucket becomes two, which share what was in it."""
        self._n_buckets *= 2
        room = self._n_buckets if 2 * self._n_buckets <= self._capacity else self._capacity
        n_more = room - len(self._token_array)
        self._token_array = np.concatenate((self._token_array, np.zeros(n_more, dtype=np.int32)))
        self._link_array = np.concatenate((self._link_array, np.zeros((n_more, len(LEVELS)), dtype=np.int32)))
        self._head_array = np.concatenate((self._head_array, self._head_array), axis=1)
        self._view()

    def _view(self) -> None:
        # single items of a memoryview are read and written several times faster than those of an array
        self._tokens = self._token_array.data
        self._levels = [
            (size, self._head_array[level].data, self._link_array[:, level].data)
            for level, size in enumerate(LEVELS)
        ]
