"""A draft model's tokens by the ids of a target that has the same ones elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class TokenMap:
    """Rows and ids of a draft model, translated; the model itself is left as it is.

    A row keeps the logits of shared tokens and forbids all others, so that its law is the draft's own,
    restricted to shared tokens and renormalised (Timor et al., arXiv 2502.05202, algorithm 4).

    Parameters
    ----------
    to_target : int64 array, shape (draft rows,)
        The target's id of the same token, or -1; no target id twice.
    n_target : int
        Rows of the target.
    """

    def __init__(self, to_target: NDArray[np.int64], n_target: int) -> None:
        self._draft_ids = np.flatnonzero(to_target >= 0)
        self._target_ids = to_target[self._draft_ids]
        self._to_draft = np.full(n_target, -1, dtype=np.int64)
        self._to_draft[self._target_ids] = self._draft_ids

    @property
    def n_target(self) -> int:
        """Rows of the target."""
        return len(self._to_draft)

    def draft_id(self, token: int) -> int:
        """The draft's id of a shared token."""
        return int(self._to_draft[token])

    def row(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A row of the draft's, shape (draft rows,), by the target's ids, shape (target rows,)."""
        row = np.full(self.n_target, -np.inf, dtype=np.float32)
        row[self._target_ids] = logits[self._draft_ids]
        return row
