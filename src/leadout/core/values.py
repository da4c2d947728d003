"""The values that drafters, rules and the engine hand to one another.

Knows nothing of models, text or time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadout.checks import check_number, is_finite, is_whole, shown
from leadout.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """A sparse probability distribution over token ids.

    Parameters
    ----------
    ids : int64 array, shape (n,)
        Strictly ascending token ids; the support.
    probs : float64 array, shape (n,)
        Positive probabilities that sum to 1.
    """

    ids: NDArray[np.int64]
    probs: NDArray[np.float64]

    @classmethod
    def point(cls, token: int) -> Distribution:
        """The distribution that always gives `token`."""
        return cls(ids=np.array([token], dtype=np.int64), probs=np.ones(1))

    def prob(self, token: int) -> float:
        """Probability of `token`; 0 outside the support."""
        at = int(np.searchsorted(self.ids, token))
        return float(self.probs[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    def probs_of(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probabilities of `ids`, shape of `ids`; 0 outside the support."""
        if np.array_equal(self.ids, ids):  # two rows that nothing was cut from
            return self.probs
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.probs[at], 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a drafter proposes for one slot in one round.

    Parameters
    ----------
    tokens : tuple of int, length k
        The drafted tokens; empty when the drafter has nothing to say.
    rows : tuple of Distribution, length k, or None
        The distribution each token was *really drawn from* (`q`); None means point masses.
    drafter : str
        Who proposed, for reports.
    confidences : tuple of float in 0..1, length k, or empty
        The drafter's own belief in each token; empty when nobody wanted to know.
    n_given : int in 0..k
        Tokens at the start that a lookup gave, before `drafter` went on.
    given_by : str
        That lookup, where there was one.
    """

    tokens: tuple[int, ...] = ()
    rows: tuple[Distribution, ...] | None = None
    drafter: str = "none"
    confidences: tuple[float, ...] = ()
    n_given: int = 0
    given_by: str = ""

    def __post_init__(self) -> None:
        if self.rows is not None and len(self.rows) != len(self.tokens):
            raise InputError(
                f"a proposal of {len(self.tokens)} tokens needs as many rows, got {len(self.rows)}"
            )
        if self.confidences and len(self.confidences) != len(self.tokens):
            raise InputError(
                f"a proposal of {len(self.tokens)} tokens needs as many confidences or none, "
                f"got {len(self.confidences)}"
            )

    def first(self, k: int) -> Proposal:
        """Its first `k` tokens; exact only where k was not chosen by what the tokens after them are."""
        if k >= len(self.tokens):
            return self
        is_given = 0 < k <= self.n_given
        return Proposal(
            tokens=self.tokens[:k],
            rows=None if self.rows is None else self.rows[:k],
            drafter=self.given_by if is_given else self.drafter,
            confidences=self.confidences[:k],
            n_given=0 if is_given else self.n_given,
            given_by="" if is_given else self.given_by,
        )

    def drafter_of(self, at: int) -> str:
        """Who proposed the token at this index."""
        return self.given_by if at < self.n_given else self.drafter

    @property
    def source(self) -> str:
        """Everyone who had a part in it, such as "suffix+qwen2.5-coder-0.5b"."""
        return f"{self.given_by}+{self.drafter}" if self.n_given else self.drafter


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verification rule decided about a proposal of k tokens.

    Parameters
    ----------
    accepted : int
        How many drafted tokens stand, 0..k.
    token : int
        The token after them: the correction when ``accepted < k``, else the bonus token.
    """

    accepted: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What penalties look at: the text before the row that is being shaped.

    Parameters
    ----------
    prompt : frozenset of int
        Ids that occur in the prompt (only `repetition_penalty` counts these).
    generated : tuple of int
        Ids generated so far, drafted ones included.
    """

    prompt: frozenset[int] = frozenset()
    generated: tuple[int, ...] = ()

    def after(self, tokens: Sequence[int]) -> History:
        """The history once `tokens` have been added."""
        return History(prompt=self.prompt, generated=(*self.generated, *tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The sampling law a request asks for; applied in the order the fields stand here.

    Parameters
    ----------
    logit_bias : mapping of id to float
        Finite numbers added to the logits of these ids; -100 or less forbids a token in practice. The mapping
        is copied: later changes of the caller's change nothing here.
    repetition_penalty : float > 0
        Divides positive and multiplies negative logits of ids in the prompt or the answer; 1 is off.
    frequency_penalty, presence_penalty : float, -2..2
        Subtracted per occurrence / once from ids in the answer; 0 is off.
    temperature : float >= 0
        0 is greedy: a point mass on the lowest-id argmax.
    top_k : int >= 0
        Keep the k most probable ids; 0 is off.
    top_p : float in (0, 1]
        Keep the smallest set of most probable ids whose mass reaches top_p; 1 is off.
    min_p : float in [0, 1]
        Drop ids less probable than min_p times the most probable one; 0 is off.

    Raises
    ------
    InputError
        If a value is outside its range; the message names field, value and range.
    """

    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    min_p: float = 0.0

    def __post_init__(self) -> None:
        smallest, largest = math.nextafter(0.0, 1.0), math.inf
        check_number("temperature", self.temperature, 0.0, largest, "a number >= 0 (0 is greedy)")
        check_number("top_p", self.top_p, smallest, 1.0, "a number in (0, 1]; 1 is off")
        check_number("min_p", self.min_p, 0.0, 1.0, "a number in [0, 1]; 0 is off")
        check_number("frequency_penalty", self.frequency_penalty, -2.0, 2.0, "a number in [-2, 2]; 0 is off")
        check_number("presence_penalty", self.presence_penalty, -2.0, 2.0, "a number in [-2, 2]; 0 is off")
        check_number(
            "repetition_penalty", self.repetition_penalty, smallest, largest, "a number > 0; 1 is off"
        )
        if not is_whole(self.top_k) or self.top_k < 0:
            raise InputError(f"top_k is {shown(self.top_k)}; it must be a whole number >= 0 (0 is off)")
        if not isinstance(self.logit_bias, Mapping):
            raise InputError(f"logit_bias is {self.logit_bias!r}; it must map ids >= 0 to finite numbers")
        for token, bias in self.logit_bias.items():
            if not is_whole(token) or token < 0 or not is_finite(bias):
                raise InputError(
                    f"logit_bias has {token!r}: {bias!r}; it must map ids >= 0 to finite numbers"
                )
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))

    @property
    def is_greedy(self) -> bool:
        """True when the law is a point mass."""
        return self.temperature == 0

    @property
    def has_penalties(self) -> bool:
        """True when the law depends on the text before the row."""
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0)
