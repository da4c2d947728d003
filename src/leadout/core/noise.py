"""Random sources: shared noise keyed by position for seeded requests, a plain generator for the others.

Knows nothing of models. No global random state is read or written.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import Distribution


class Source(Protocol):
    """The two kinds of chance a verification rule needs; tests put an enumerating one in its place."""

    def accepts(self, probability: float) -> bool:
        """True with exactly this probability (u < probability, u uniform on [0, 1))."""

    def draw(self, distribution: Distribution) -> int:
        """A token id drawn from `distribution`."""


class Noise:
    """Gumbel noise that depends on (seed, stream, position, id) alone; `stream` tells apart the n samples of a request."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        raise NotImplementedError

    def gumbel(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard Gumbel values, one for each id at this position of the answer; shape of `ids`."""
        raise NotImplementedError

    def draw(self, distribution: Distribution, position: int) -> int:
        """argmax(log p + noise): a draw from `distribution` that any other holder of the noise can repeat."""
        raise NotImplementedError
