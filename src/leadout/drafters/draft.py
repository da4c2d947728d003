"""A draft in the making: one token after the other, drawn from the rows of a draft model.

Whether a token is wanted is decided by its row and before it is drawn, so each row stays the distribution its
token was drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadout.core import law
from leadout.core.constraint import Mask, Walk
from leadout.core.values import Distribution, History, Sampling
from leadout.drafters.base import DraftRequest


@dataclass(slots=True)
class Draft:
    """A proposal in the making.

    Parameters
    ----------
    request : DraftRequest
    k : int
        Most tokens of it.
    sampling : Sampling
        The request's, as far as the draft model can follow it.
    walk : Walk or None
        Along the request's constraint, behind the tokens.
    tokens, rows : list
        Drawn so far, and what they were drawn from where that is not a point mass.
    confidences : list of float
        Of each row seen.
    is_over : bool
        Whether no more is wanted.
    """

    request: DraftRequest
    k: int
    sampling: Sampling
    walk: Walk | None = None
    tokens: list[int] = field(default_factory=list)
    rows: list[Distribution] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    is_over: bool = False

    @property
    def is_point(self) -> bool:
        """True when tokens are argmaxes of logits that nothing but the model shapes."""
        law_is_bare = not self.sampling.logit_bias and not self.sampling.has_penalties
        return self.sampling.is_greedy and law_is_bare and self.walk is None

    def draw(self, drafter: str, logits: NDArray[np.float32]) -> None:
        """Draw the next token from the request's law over these logits, shape (V,), unless it is not wanted.

        Whether it is, is decided by the row and before the token is drawn.
        """
        request, judge = self.request, self.request.judge
        allowed = None if self.walk is None else self.walk.mask()
        if allowed is not None:
            logits = law.only(logits, _fitted(allowed, logits.size))
            self.is_over = not np.isfinite(logits).any()  # only the target knows what is allowed here
            if self.is_over:
                return
        row = None if self.is_point else law.shape(logits, self.sampling, self._history())
        if judge.wants_confidences:
            if row is None or self.sampling.is_greedy:  # a point mass, which believes in anything
                self.confidences.append(law.top_probability(logits))
            else:
                self.confidences.append(float(row.probs.max()))
        self.is_over = not judge.takes(drafter, self.confidences)
        if self.is_over:
            return
        if row is None:
            self.tokens.append(int(np.argmax(logits)))
            return
        if request.noise is None:
            token = request.source.draw(row)
        else:
            token = request.noise.draw(row, request.position + len(self.tokens))
        self.tokens.append(token)
        self.rows.append(row)
        if self.walk is not None:
            self.walk.advance(token)
            self.is_over = self.walk.is_over

    def _history(self) -> History:
        history = self.request.history
        return history.after(self.tokens) if self.sampling.has_penalties else history


def _fitted(allowed: Mask, n_vocab: int) -> Mask:
    """The mask of a target with other rows of padding; rows that it does not know are not allowed."""
    fitted = np.zeros(n_vocab, dtype=np.bool_)
    fitted[: allowed.size] = allowed[:n_vocab]
    return fitted
