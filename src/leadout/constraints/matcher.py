"""Where one answer stands in its grammar: the Constraint seam over llguidance's matcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llguidance import LLMatcher

from leadout.core.constraint import Mask
from leadout.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class GrammarConstraint:
    """A grammar, compiled for one vocabulary.

    Parameters
    ----------
    matcher : LLMatcher
        Stands at the beginning and is never moved; copies of it share what it has learned.
    n_vocab : int
        Length of masks.
    """

    matcher: LLMatcher
    n_vocab: int

    def begin(self) -> MatcherState:
        """The state of a new answer."""
        return MatcherState(self.matcher.deep_copy(), self.n_vocab)


class MatcherState:
    """Where one answer stands.

    A grammar that takes more work than is allowed for one step raises InputError here, which ends the answer.
    """

    def __init__(self, matcher: LLMatcher, n_vocab: int) -> None:
        self._matcher, self._n_vocab = matcher, n_vocab

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow."""
        is_stopped = self._matcher.is_stopped()
        if is_stopped:  # or in an error
            self._check()
        return is_stopped

    def mask(self) -> Mask:
        """True at the ids that may come next, shape (V,).

        Where only one text can follow, that is the one id with which the model's own tokenizer writes it.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check()
        return np.unpackbits(bits, count=self._n_vocab, bitorder="little").view(np.bool_)

    def forced(self) -> Sequence[int]:
        """The ids without an alternative, one after the other."""
        tokens = self._matcher.compute_ff_tokens()
        self._check()
        return tokens

    def advance(self, token: int) -> None:
        """`token` comes next."""
        self._matcher.consume_token(token)
        self._check()

    def rollback(self, n: int) -> None:
        """Take back the last `n` tokens."""
        if n:
            self._matcher.rollback(n)
            self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise InputError(f"the grammar cannot be followed any further: {error_of(self._matcher)}")


def error_of(matcher: LLMatcher) -> str:
    """What is wrong, on one line."""
    told = " ".join(matcher.get_error().replace("<non-verbose/>", "").split())[:300]
    return "no text fits it" if told.startswith("NoExtension") else told
