"""Slots with a cache each, behind the `Context` seam.

In one shared cache the entries of other slots lie between a slot's own, and where they lie decides in which
order its sums are taken: the last bits of its logits depend on what the others did. With a cache each they
cannot; the price is a pass per slot instead of one over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from leadout.models.binding import DECODED, Batch, Context


class SeparateContexts:
    """A `Context` over one single-slot context per slot; closes them.

    Parameters
    ----------
    contexts : sequence of Context, length n_slots
        Each with one slot and the same batch length.
    is_windowed : bool
        True when layers have a sliding window: a saved state then holds the last window only and cannot be
        cut, so prefixes are not copied.
    """

    def __init__(self, contexts: Sequence[Context], *, is_windowed: bool) -> None:
        self._contexts = tuple(contexts)
        self._is_windowed = is_windowed
        n = len(self._contexts[0].batch.tokens)
        self._batch = Batch(
            tokens=np.zeros(n, np.int32),
            positions=np.zeros(n, np.int32),
            slots=np.zeros(n, np.int32),
            wanted=np.zeros(n, np.int8),
        )
        self._starts: dict[int, int] = {}  # where in the batch each slot's run began

    @property
    def batch(self) -> Batch:
        return self._batch

    @property
    def max_rows(self) -> int:
        return self._contexts[0].max_rows

    def decode(self, n_tokens: int) -> int:
        self._starts.clear()
        slots = self._batch.slots[:n_tokens]
        borders = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), n_tokens]
        for start, stop in pairwise(borders):
            slot = int(slots[start])
            self._starts[slot] = start
            own = self._contexts[slot].batch
            own.tokens[: stop - start] = self._batch.tokens[start:stop]
            own.positions[: stop - start] = self._batch.positions[start:stop]
            own.wanted[: stop - start] = self._batch.wanted[start:stop]
            own.slots[: stop - start] = 0
            code = self._contexts[slot].decode(stop - start)
            if code != DECODED:
                return code
        return DECODED

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        slot = int(self._batch.slots[first])
        start = self._starts[slot]
        return self._contexts[slot].rows(first - start, last - start)

    def remove(self, slot: int, start: int) -> bool:
        return self._contexts[slot].remove(0, start)

    def copy(self, source: int, target: int, length: int | None) -> bool:
        if self._is_windowed:
            return False
        copied = self._contexts[target]
        is_restored = copied.restore(0, self._contexts[source].save(0, whole=True), whole=True)
        return is_restored and (length is None or copied.remove(0, length))

    def end(self, slot: int) -> int:
        return self._contexts[slot].end(0)

    def save(self, slot: int, *, whole: bool) -> bytes:
        return self._contexts[slot].save(0, whole=whole)

    def restore(self, slot: int, state: bytes, *, whole: bool) -> bool:
        return self._contexts[slot].restore(0, state, whole=whole)

    def close(self) -> None:
        for context in self._contexts:
            context.close()
