"""The Constraint seam: which tokens an answer may go on with, such as those of a grammar.

Knows ids only. What a constraint allows becomes a mask in the sampling law, for the target's rows and for a
draft model's alike, so a constrained answer has the law of constrained plain decoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""True at the ids that are allowed, shape (V,)."""


class ConstraintState(Protocol):
    """Where one answer stands."""

    @property
    def is_over(self) -> bool:
        """True when nothing may follow; an end token that the mask allowed brings this about too."""

    def mask(self) -> Mask | None:
        """The ids that may come next, shape (V,), with end tokens where the answer may end; None is all.

        Asked only while it is not over. The array is read only and may change with the next call.
        """

    def forced(self) -> Sequence[int]:
        """Tokens that are sure, or nearly so, to come next; they are drafted for free. May be empty."""

    def advance(self, token: int) -> None:
        """`token`, which the mask allowed, comes next; never called once it is over."""

    def rollback(self, n: int) -> None:
        """Take back the last `n` tokens."""


@runtime_checkable
class Constraint(Protocol):
    """What a request may ask for beside the sampling law; shared by its answers and never changed."""

    def begin(self) -> ConstraintState:
        """The state of a new answer, before its first token."""


class Walk:
    """A state moved along drafted tokens; made by `ahead`, which brings it back.

    Parameters
    ----------
    state : ConstraintState
    """

    def __init__(self, state: ConstraintState) -> None:
        self._state = state
        self._n_ahead = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow here."""
        return self._state.is_over

    def mask(self) -> Mask | None:
        """The ids that may come next; all of them once it is over, where no token reaches the answer."""
        return None if self._state.is_over else self._state.mask()

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        mask = self.mask()
        return not self.is_over and (mask is None or (0 <= token < mask.size and bool(mask[token])))

    def advance(self, token: int) -> None:
        """One token further."""
        self._state.advance(token)
        self._n_ahead += 1

    def go_to(self, tokens: Sequence[int]) -> None:
        """Move behind these tokens, which begin with those passed already; not beyond where it is over."""
        while self._n_ahead < len(tokens) and not self._state.is_over:
            self.advance(tokens[self._n_ahead])

    def go_back(self) -> None:
        """Move to where the walk began."""
        if self._n_ahead:
            self._state.rollback(self._n_ahead)
            self._n_ahead = 0


@contextmanager
def ahead(state: ConstraintState) -> Iterator[Walk]:
    """A walk from where the state stands; whatever happens, the state stands there again afterwards."""
    walk = Walk(state)
    try:
        yield walk
    finally:
        walk.go_back()
