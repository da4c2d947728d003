"""A constraint from a rule that can be computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from leadout.core.constraint import Mask
from leadout.testing.broken_promise import BrokenPromise

Allowed = Callable[[tuple[int, ...]], Collection[int]]
"""The tokens of the answer so far -> the ids that may follow; none of them when it is over."""


class RuleConstraint:
    """Allows what `rule` says; tokens that are the only ones allowed are forced.

    Parameters
    ----------
    rule : callable
    n_vocab : int
        Length of the masks.
    ends : collection of int
        Ids that end an answer; after one of them it is over.

    Attributes
    ----------
    states : list of RuleState
        Every state that was begun, in order.
    """

    def __init__(self, rule: Allowed, *, n_vocab: int, ends: Collection[int] = ()) -> None:
        self._rule, self._n_vocab, self._ends = rule, n_vocab, frozenset(ends)
        self.states: list[RuleState] = []

    def begin(self) -> RuleState:
        """A new state."""
        self.states.append(RuleState(self._rule, self._n_vocab, self._ends))
        return self.states[-1]


class RuleState:
    """Where an answer stands; holds its users to the seam's promises.

    Attributes
    ----------
    tokens : list of int
        What the state stands behind.
    """

    def __init__(self, rule: Allowed, n_vocab: int, ends: frozenset[int]) -> None:
        self._rule, self._n_vocab, self._ends = rule, n_vocab, ends
        self.tokens: list[int] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow."""
        return bool(self._ends.intersection(self.tokens)) or not self._rule(tuple(self.tokens))

    def mask(self) -> Mask | None:
        """True at the ids that may follow."""
        if self.is_over:
            raise BrokenPromise(f"a mask was asked for behind {self.tokens}, where it is over")
        mask = np.zeros(self._n_vocab, dtype=np.bool_)
        mask[list(self._rule(tuple(self.tokens)))] = True
        return None if mask.all() else mask

    def forced(self) -> Sequence[int]:
        """Tokens without an alternative, one after the other."""
        tokens = list(self.tokens)
        while len(tokens) < len(self.tokens) + self._n_vocab:
            allowed = self._rule(tuple(tokens))
            if self._ends.intersection(tokens) or len(allowed) != 1:
                break
            tokens += allowed
        return tokens[len(self.tokens) :]

    def advance(self, token: int) -> None:
        """One token further."""
        if self.is_over or token not in self._rule(tuple(self.tokens)):
            raise BrokenPromise(f"{token} is not allowed behind {self.tokens}")
        self.tokens.append(token)

    def rollback(self, n: int) -> None:
        """Take back `n` tokens."""
        if not 0 <= n <= len(self.tokens):
            raise BrokenPromise(f"{n} tokens cannot be taken back from {self.tokens}")
        del self.tokens[len(self.tokens) - n :]
