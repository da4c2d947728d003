"""The sampling law: one row of logits becomes one sparse distribution; the same law shapes target and draft.

Every filter keeps a prefix of one order, "largest logit first, lowest id among equals", so that ties never
depend on a sorting routine. A row has some 150,000 logits and is shaped once per drafted token, so nothing
here sorts a whole row, and double-precision exponentials are taken only of ids that may survive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import Distribution, History, Sampling
from leadout.errors import BackendError, InputError

Logits: TypeAlias = NDArray[np.floating[Any]]
"""One row of float32 or float64."""

# A threshold counts as reached within this share of it, so that sums in different orders agree that it is.
_ROUNDING = 1e-12
# Single precision is used only where its range is ample: temperature and min_p above this.
_SINGLE_RANGE = 1e-20
# Bounds on the relative error of a sum of coarse weights exp(z): three roundings of z (below -40 a weight is
# too light to matter), one of exp and a pairwise sum give 1e-5 in single precision, below 1e-13 in double.
_SINGLE_ERROR = 2e-5
_DOUBLE_ERROR = 1e-13
# Below this many values sorting is cheaper than another partition.
_SORTED_AT_ONCE = 2048
# Sums over a row go in pieces that stay in the CPU's cache.
_PIECE = 16_384


def shape(logits: Logits, sampling: Sampling, history: History | None = None) -> Distribution:
    """Apply the sampling law to one row.

    Logit bias, repetition, frequency and presence penalties, temperature, top-k, top-p and min-p, in that
    order. Top-p (Holtzman et al., arXiv 1904.09751, section 3.1) keeps the id whose mass reaches `top_p`;
    min-p is Nguyen et al., arXiv 2407.01082, section 3; the repetition penalty is Keskar et al., arXiv
    1909.05858, section 4.1, with negative logits multiplied.

    Parameters
    ----------
    logits : float32 or float64 array, shape (V,)
        The model's row; read only. -inf forbids an id.
    sampling : Sampling
        The law.
    history : History or None
        What penalties look at; None is an empty history. Ids without a logit here are skipped.

    Returns
    -------
    Distribution
        Ascending ids of positive probability; temperature 0 is a point mass on the lowest-id argmax.

    Raises
    ------
    InputError
        If `logit_bias` names an id outside 0..V-1.
    BackendError
        If the row has NaN or +inf, or forbids every id.
    """
    row = _adjusted(logits, sampling, history or History())
    best = _best(row)
    if sampling.is_greedy:
        return Distribution.point(best)
    scale = _Scale(top=float(row[best]), temperature=sampling.temperature)
    if 0 < sampling.top_k < row.size:
        largest = _first(row, _nth_largest(row, sampling.top_k), sampling.top_k)
        ids, weights = _survivors(row[largest], sampling, scale)
        ids = largest[ids]
    else:
        ids, weights = _survivors(row, sampling, scale)
    return Distribution(ids=ids, probs=weights / weights.sum())


def only(logits: Logits, allowed: NDArray[np.bool_]) -> Logits:
    """A copy of a row that forbids all ids but those allowed, both of shape (V,): the grammar mask.

    Its place is behind bias and penalties; as these are finite, and forbidden stays forbidden, it may as well
    come first.

    Raises
    ------
    BackendError
        If the mask has another length than the row.
    """
    if allowed.shape != logits.shape:
        raise BackendError(f"a mask of shape {allowed.shape} does not fit a row of shape {logits.shape}")
    return np.where(allowed, logits, logits.dtype.type(-math.inf))


def logprob(logits: Logits, token: int) -> float:
    """Natural log probability of `token` under the plain softmax of a row, shape (V,); -inf if forbidden.

    Raises
    ------
    BackendError
        If `token` is outside 0..V-1, or the row is not usable (see `shape`).
    """
    if not 0 <= token < logits.size:
        raise BackendError(f"token {token} does not belong to the model; its ids are 0..{logits.size - 1}")
    return float(logits[token]) - _log_total(logits)


def top_logprobs(logits: Logits, n: int) -> list[tuple[int, float]]:
    """The n most probable ids of a row, shape (V,), with natural log probabilities; equals by ascending id.

    Forbidden ids (-inf) are left out, so fewer than n may come back.

    Raises
    ------
    BackendError
        If the row is not usable (see `shape`).
    """
    total = _log_total(logits)
    n = min(n, logits.size)
    if n <= 0:
        return []
    ids = _first(logits, _nth_largest(logits, n), n)
    ids = ids[np.argsort(-logits[ids], kind="stable")]
    return [(int(i), float(logits[i]) - total) for i in ids if logits[i] > -math.inf]


def top_probability(logits: Logits) -> float:
    """Probability of the most probable id under the plain softmax of a row, shape (V,); in single precision.

    Raises
    ------
    BackendError
        If the row is not usable (see `shape`).
    """
    scale = _Scale(top=float(logits[_best(logits)]), temperature=1.0)
    return 1.0 / float(scale.coarse(logits).sum())


def _log_total(logits: Logits) -> float:
    """Log of the sum of exp over the row, in float64."""
    top = float(logits[_best(logits)])
    return top + math.log(_Scale(top=top, temperature=1.0).total(logits))


def _best(row: Logits) -> int:
    """Lowest-id argmax; as it finds NaN and +inf first, it also shows whether the row is usable."""
    if row.ndim != 1 or not row.size:
        raise BackendError(f"logits have shape {row.shape}; one row of shape (V,) with V >= 1 is needed")
    best = int(row.argmax())
    value = float(row[best])
    if math.isnan(value) or value == math.inf:
        raise BackendError(f"the logit of id {best} is {value}; the model's output is not usable")
    if value == -math.inf:
        raise BackendError("every logit is -inf: no id is allowed to follow")
    return best


def _adjusted(logits: Logits, sampling: Sampling, history: History) -> Logits:
    """The row with bias and penalties: the row itself when there are none, else a float64 copy."""
    if not sampling.logit_bias and not sampling.has_penalties:
        return logits if logits.dtype == np.float32 else logits.astype(np.float64, copy=False)
    row = logits.astype(np.float64)
    outside = [token for token in sampling.logit_bias if token >= row.size]
    if outside:
        raise InputError(f"logit_bias names id {outside[0]}; this model's ids are 0..{row.size - 1}")
    bias = np.array(list(sampling.logit_bias.items()), dtype=np.float64).reshape(-1, 2)
    with np.errstate(over="ignore"):  # a result of inf is refused with the row
        row[bias[:, 0].astype(np.int64)] += bias[:, 1]
        if sampling.has_penalties:
            _penalise(row, sampling, history)
    return row


def _penalise(row: NDArray[np.float64], sampling: Sampling, history: History) -> None:
    """Apply the penalties in place."""
    answer, counts = np.unique(np.array(history.generated, dtype=np.int64), return_counts=True)
    prompt = np.array(list(history.prompt), dtype=np.int64)
    inside = (answer >= 0) & (answer < row.size)
    answer, counts = answer[inside], counts[inside]
    seen = np.union1d(prompt[(prompt >= 0) & (prompt < row.size)], answer)
    values, penalty = row[seen], sampling.repetition_penalty
    row[seen] = np.where(values > 0, values / penalty, values * penalty)
    row[answer] -= counts * sampling.frequency_penalty + sampling.presence_penalty


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Turns logits into weights exp((logit - top) / temperature), `top` being the largest of the row."""

    top: float
    temperature: float

    def weigh(self, values: Logits) -> NDArray[np.float64]:
        """Their weights, in 0..1: exp cannot overflow, and a tiny temperature may only drive it to 0."""
        with np.errstate(over="ignore"):
            weights: NDArray[np.float64] = np.subtract(values, self.top, dtype=np.float64)
            weights /= self.temperature
        return np.exp(weights, out=weights)

    def total(self, row: Logits) -> float:
        """The sum of their weights."""
        return math.fsum(float(self.weigh(row[at : at + _PIECE]).sum()) for at in range(0, row.size, _PIECE))

    def coarse(self, row: Logits) -> NDArray[np.float32]:
        """Their weights in single precision, for a temperature in its range."""
        weights = np.empty(row.size, dtype=np.float32)
        with np.errstate(over="ignore"):
            np.subtract(row, self.top, out=weights, casting="same_kind")  # rounded after the subtraction
            weights /= np.float32(self.temperature)
        return np.exp(weights, out=weights)


def _survivors(
    row: Logits, sampling: Sampling, scale: _Scale
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ascending indices of the values that top-p and min-p keep, and their weights, all above 0."""
    if sampling.top_p == 1 and sampling.min_p == 0:
        ids = np.arange(row.size)
    else:
        coarse, error = _coarse_weights(row, sampling, scale)
        # All ids lighter than `least` together weigh less than 1 - top_p of the whole: top-p needs none.
        least = max(sampling.min_p, (1 - sampling.top_p) * float(coarse.sum()) / row.size) * (1 - 2 * error)
        ids = np.flatnonzero(coarse >= least)
        if sampling.top_p < 1:
            coarse[ids] = 0
            rest = float(coarse.sum())
            ids = _nucleus(row, ids, (rest * (1 - error), rest * (1 + error)), sampling.top_p, scale)
    weights = scale.weigh(row[ids])
    is_light = weights < max(float(np.finfo(np.float64).tiny), sampling.min_p * (1 - _ROUNDING))
    if is_light.any():
        heavy = np.flatnonzero(~is_light)
        ids, weights = ids[heavy], weights[heavy]
    return ids, weights


def _coarse_weights(row: Logits, sampling: Sampling, scale: _Scale) -> tuple[Logits, float]:
    """Weights in single precision where the numbers fit, else in double, and a sum's relative error."""
    fits = _SINGLE_RANGE < scale.temperature < 1 / _SINGLE_RANGE and not 0 < sampling.min_p < _SINGLE_RANGE
    return (scale.coarse(row), _SINGLE_ERROR) if fits else (scale.weigh(row), _DOUBLE_ERROR)


def _nucleus(
    row: Logits, ids: NDArray[np.int64], rest: tuple[float, float], top_p: float, scale: _Scale
) -> NDArray[np.int64]:
    """Those of `ids` that top-p keeps; `rest` are bounds of the weight of all other ids together."""
    values, share = row[ids], top_p * (1 - _ROUNDING)
    if 2 * ids.size < row.size:
        head = float(scale.weigh(values).sum())
        least, most = share * (head + rest[0]), share * (head + rest[1])
    else:  # so flat a row that its weights are too close to one another for coarse ones
        least = most = share * scale.total(row)
    count, cut, mass = _reach(values, least, scale)
    if least <= mass < most:  # too close to call
        count, cut, _ = _reach(values, share * scale.total(row), scale)
    return ids[_first(values, cut, count)]


def _reach(values: Logits, target: float, scale: _Scale) -> tuple[int, float, float]:
    """How many of the largest values are needed for their weights to reach `target`; all, if they never do.

    Returns
    -------
    count, cut, mass
        The number of values, the smallest of them, and their weight together.
    """
    count, mass = 0, 0.0
    while values.size > _SORTED_AT_ONCE:
        half = values.size // 2
        values = np.partition(values, half)
        lower, upper = values[:half], values[half:]
        weight = float(scale.weigh(upper).sum())
        if mass + weight >= target:
            values = upper
        else:
            count, mass, values = count + upper.size, mass + weight, lower
    values = np.sort(values)[::-1]
    masses = mass + np.cumsum(scale.weigh(values))
    last = min(int(np.searchsorted(masses, target)), values.size - 1)
    return count + last + 1, float(values[last]), float(masses[last])


def _nth_largest(row: Logits, n: int) -> float:
    """The n-th largest value, 1 <= n <= len(row)."""
    # The n-th largest of column maxima is a lower bound that leaves little more than n values to look at.
    height = row.size // (4 * n)
    if height > 1:
        width = row.size // height
        maxima = row[: height * width].reshape(height, width).max(axis=0)
        row = row[np.flatnonzero(row >= np.partition(maxima, -n)[-n])]
    return float(np.partition(row, -n)[-n])


def _first(values: Logits, cut: float, count: int) -> NDArray[np.int64]:
    """Ascending indices of the `count` largest values, the last of them `cut`; equals by lowest index."""
    is_kept = values >= cut
    surplus = int(np.count_nonzero(is_kept)) - count
    if surplus:
        is_kept[np.flatnonzero(values == cut)[-surplus:]] = False
    return np.flatnonzero(is_kept)
