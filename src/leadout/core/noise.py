"""Random sources: shared noise keyed by position for seeded requests, a plain generator for the others.

Knows nothing of models. No global random state is read or written.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import Distribution
from leadout.errors import InputError

# splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, section 5.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class Source(Protocol):
    """The two kinds of chance a verification rule needs; tests put an enumerating one in its place."""

    def accepts(self, probability: float) -> bool:
        """True with exactly this probability (u < probability, u uniform on [0, 1))."""

    def draw(self, distribution: Distribution) -> int:
        """A token id drawn from `distribution`."""


class RandomSource:
    """A `Source` for unseeded requests: fresh randomness from a generator of its own."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def accepts(self, probability: float) -> bool:
        """True with this probability; never at 0, always at 1."""
        return self._generator.random() < probability

    def draw(self, distribution: Distribution) -> int:
        """A token id by inverse transform, one uniform number per draw."""
        masses = np.cumsum(distribution.probs)
        # Scaled by the last sum, which may miss 1 by rounding; the product may round up to it, hence min.
        at = np.searchsorted(masses, self._generator.random() * masses[-1], side="right")
        return int(distribution.ids[min(int(at), masses.size - 1)])


class Noise:
    """Gumbel noise that depends on (seed, stream, position, id) alone.

    A counter-based generator: every value is a hash of its key, so noise is evaluated only at the ids that
    survive the sampling law, in any order, by target and drafter alike. The values are frozen: a saved seed
    gives the same text in later versions.

    Parameters
    ----------
    seed, stream : int in 0..2**64-1
        The request's seed; `stream` tells apart the n answers of a request.

    Raises
    ------
    InputError
        If one of them is outside its range.
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        for name, value in (("seed", seed), ("stream", stream)):
            if not 0 <= value < 2**64:
                raise InputError(f"{name} is {value!r}; it must be a whole number in 0..2**64-1")
        self._key = _hash(_hash(np.zeros(1, dtype=np.uint64), seed), stream)

    def gumbel(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard Gumbel values, one for each id at this position (>= 0) of the answer; shape of `ids`."""
        return -np.log(self._exponential(position, ids))

    def draw(self, distribution: Distribution, position: int) -> int:
        """argmax(log p + noise): a draw from `distribution` that any other holder of the noise can repeat.

        The Gumbel-max rule (Maddison et al., "A* sampling", arXiv 1411.0030); equals go to the lowest id.
        """
        # p / E orders ids as log p + Gumbel does, as Gumbel = -log E, with two logarithms fewer per id.
        race = distribution.probs / self._exponential(position, distribution.ids)
        return int(distribution.ids[np.argmax(race)])

    def _exponential(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard exponential values, all > 0."""
        words = _hash(_hash(self._key, position), ids)
        # 53 bits; 0 is moved half a step, so that every uniform lies strictly between 0 and 1.
        uniforms = np.maximum((words >> np.uint64(11)).astype(np.float64), 0.5) * 2.0**-53
        return -np.log(uniforms)


def _hash(key: NDArray[np.uint64], word: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Output number `word` of splitmix64 started at `key`; arrays throughout, where uint64 wraps silently."""
    state: NDArray[np.uint64] = key + _STEP * (
        np.atleast_1d(np.asarray(word, dtype=np.uint64)) + np.uint64(1)
    )
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))
