"""The target's rows of one verify pass, shaped one by one and only when a rule asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from leadout.core import law
from leadout.core.constraint import Walk
from leadout.core.values import Distribution, History, Sampling

T = TypeVar("T")


class LazyRows(Sequence[T]):
    """A sequence of `n` items, each made by `make(i)` when it is first asked for."""

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._range, self._make = range(n), make
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._range)

    @overload
    def __getitem__(self, i: int) -> T: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[T]: ...
    def __getitem__(self, i: int | slice) -> T | Sequence[T]:
        """Row i."""
        if isinstance(i, slice):
            return [self[j] for j in self._range[i]]
        at = self._range[i]
        if at not in self._made:
            self._made[at] = self._make(at)
        return self._made[at]


def distributions(
    logits: NDArray[np.float32],
    sampling: Sampling,
    history: History,
    drafted: Sequence[int],
    walk: Walk | None = None,
) -> LazyRows[Distribution]:
    """The target's law, row i being the one after the first i drafted tokens.

    Parameters
    ----------
    logits : float32 array, shape (k+1, V)
    sampling : Sampling
        The request's law.
    history : History
        What penalties look at before row 0.
    drafted : sequence of int, length k
    walk : Walk or None
        Along a constraint, from before row 0. No rule asks for a row behind a token that has no chance, so it
        never meets one that is not allowed.
    """

    def make(i: int) -> Distribution:
        before = history.after(drafted[:i]) if sampling.has_penalties else history
        allowed = None
        if walk is not None:
            walk.go_to(drafted[:i])
            allowed = walk.mask()
        row = logits[i] if allowed is None else law.only(logits[i], allowed)
        return law.shape(row, sampling, before)

    return LazyRows(len(logits), make)


def argmaxes(
    logits: NDArray[np.float32],
    sampling: Sampling,
    history: History,
    drafted: Sequence[int],
    walk: Walk | None = None,
) -> LazyRows[int]:
    """The token that each row of `distributions` gives at temperature 0; faster where nothing shapes it."""
    shaped = distributions(logits, sampling, history, drafted, walk)
    is_bare = walk is None and not sampling.logit_bias and not sampling.has_penalties

    def make(i: int) -> int:
        best = int(np.argmax(logits[i]))
        if is_bare and np.isfinite(logits[i, best]):  # NaN and +inf win an argmax, so one look finds them
            return best
        return int(shaped[i].ids[0])

    return LazyRows(len(logits), make)
