"""A Model that computes each row once, so that thousands of draws cost as many passes as there are prefixes.

Rows are the wrapped model's own; what is left out is only their repetition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leadout.models.base import Chunk, Model, ModelInfo, Vocabulary


class RememberingModel:
    """Wraps a model; a row asked for again with the same tokens before it is returned from memory.

    Parameters
    ----------
    model : Model
        The model that computes; its slot 0 is used, whatever slots the caller names.
    n_rows : int
        Rows kept, the least recently used dropped first; each takes V * 4 bytes.
    """

    def __init__(self, model: Model, n_rows: int = 512) -> None:
        self._model = model
        self._n_rows = n_rows
        self._rows: OrderedDict[tuple[int, ...], NDArray[np.float32]] = OrderedDict()
        self._slots: dict[int, list[int]] = {}
        self._cached: list[int] = []
        model.truncate(0, 0)

    @property
    def info(self) -> ModelInfo:
        """The wrapped model's."""
        return self._model.info

    @property
    def vocab(self) -> Vocabulary:
        """The wrapped model's."""
        return self._model.vocab

    def forward(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """As Model.forward; rows are computed for the prefixes that are not remembered."""
        results = []
        for chunk in chunks:
            tokens = self._slots.setdefault(chunk.slot, [])
            tokens.extend(chunk.tokens)
            first = len(tokens) - chunk.n_logits + 1
            rows = [self.row(tuple(tokens[:end])) for end in range(first, len(tokens) + 1)]
            results.append(np.stack(rows) if rows else np.empty((0, self.info.n_vocab), dtype=np.float32))
        return results

    def row(self, prefix: tuple[int, ...]) -> NDArray[np.float32]:
        """Logits after `prefix`, shape (V,)."""
        if prefix not in self._rows:
            shared = 0
            while shared < min(len(prefix) - 1, len(self._cached)) and prefix[shared] == self._cached[shared]:
                shared += 1
            self._model.truncate(0, shared)
            missing = prefix[shared:]
            self._rows[prefix] = self._model.forward([Chunk(slot=0, tokens=missing, n_logits=1)])[0][0].copy()
            self._cached = list(prefix)
            if len(self._rows) > self._n_rows:
                self._rows.popitem(last=False)
        self._rows.move_to_end(prefix)
        return self._rows[prefix]

    def length(self, slot: int) -> int:
        """Tokens the slot holds."""
        return len(self._slots.get(slot, ()))

    def truncate(self, slot: int, length: int) -> None:
        """Forget the slot's tokens after `length`; rows stay remembered."""
        del self._slots.setdefault(slot, [])[length:]

    def copy(self, source: int, target: int, length: int) -> None:
        """Give `target` the first `length` tokens of `source`."""
        self._slots[target] = self._slots.get(source, [])[:length]

    def exact_widths(self) -> frozenset[int]:
        """Every width: rows do not depend on it here."""
        return frozenset(range(1, 65))

    def close(self) -> None:
        """Leave the wrapped model open: it belongs to the caller."""
