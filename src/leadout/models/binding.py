"""What a GGUF library must offer: the few calls that llama.cpp and its relatives share.

A `Binding` is a loaded file; a `Context` is a cache with slots that decodes batches. Both translate and
nothing more: which tokens are where, and what to do when a call fails, is `slots`' to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Memory = Literal["attention", "recurrent", "hybrid"]
"""What a slot's cache holds: an entry per position, one running state, or both."""

DECODED = 0
NO_ROOM = 1
"""Answers of `Context.decode`; any other means failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the library says of a loaded file.

    Parameters
    ----------
    provider, version : str
        The library that runs it.
    settings : str
        How the library was built and set to run, as far as it may change the bits of a result.
    memory : Memory
        What a slot holds.
    can_share : bool
        True when several slots in one context give right logits.
    reuses_entries : bool
        True when entries beyond a sliding window, which no next token can see, are given to other tokens.
    """

    provider: str
    version: str
    settings: str
    architecture: str
    n_layers: int
    n_params: int
    n_bytes: int
    n_ctx_train: int
    n_vocab: int
    n_threads: int
    memory: Memory
    can_share: bool
    reuses_entries: bool
    bos: int | None
    eos: int | None
    adds_bos: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """The arrays a context reads its next batch from; fill the first n entries, then `decode(n)`.

    Parameters
    ----------
    tokens, positions, slots : int32 arrays, shape (n_batch,)
    wanted : int8 array, shape (n_batch,)
        1 where logits are wanted, else 0.
    """

    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    slots: NDArray[np.int32]
    wanted: NDArray[np.int8]


class Context(Protocol):
    """A cache of n_slots sequences over one pool of positions."""

    @property
    def batch(self) -> Batch:
        """Where the next batch is written; as long as the longest batch allowed."""

    @property
    def max_rows(self) -> int:
        """Most rows of logits one batch may want."""

    def decode(self, n_tokens: int) -> int:
        """Run the first n_tokens of the batch: DECODED, NO_ROOM or another number."""

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Logits of entries first..last, all wanted; shape (last-first+1, V); valid until `decode`."""

    def remove(self, slot: int, start: int) -> bool:
        """Drop the slot's entries from position `start` on; False if that cannot be done."""

    def copy(self, source: int, target: int, length: int | None) -> bool:
        """Give the empty `target` the first `length` positions of `source` (None: all); False if not."""

    def end(self, slot: int) -> int:
        """One more than the slot's last position; 0 when it is empty."""

    def save(self, slot: int, *, whole: bool) -> bytes:
        """The slot's state: all of it, or only the running state, which `remove` cannot cut."""

    def restore(self, slot: int, state: bytes, *, whole: bool) -> bool:
        """Put back what `save` gave for the same `whole`; False if it does not fit."""

    def close(self) -> None:
        """Free the cache; closing twice is allowed."""


class Binding(Protocol):
    """A loaded file: its facts, its vocabulary, and contexts over its weights."""

    @property
    def facts(self) -> Facts:
        """What the library says of it."""

    def open_context(self, *, n_ctx: int, n_slots: int) -> Context:
        """A new cache of n_slots sequences with n_ctx positions each."""

    def metadata(self, key: str) -> str | None:
        """A text or number of the file's header, as text."""

    def token_text(self, token: int) -> bytes:
        """The vocabulary entry as stored."""

    def token_piece(self, token: int, *, special: bool) -> bytes:
        """What the token adds to the text."""

    def token_is_end(self, token: int) -> bool:
        """True when the token ends an answer."""

    def tokenize(self, text: bytes, *, special: bool) -> list[int]:
        """Ids of the text, without anything added in front or behind."""

    def last_errors(self) -> str:
        """What the library last complained of, in one line; "" if nothing."""

    def close(self) -> None:
        """Free the weights; every context must be closed before. Closing twice is allowed."""
