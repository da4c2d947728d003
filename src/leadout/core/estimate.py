"""Acceptance predicted before verifying: how likely a drafted token is to stand, and how good that was.

One `AcceptanceModel` per drafter turns the drafter's own confidence into a chance, and learns from every
verdict. It holds a few numbers and no text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leadout.checks import is_finite
from leadout.errors import InputError

_Vector = tuple[float, ...]
_Matrix = tuple[_Vector, ...]

PRIOR_WEIGHTS = (0.0, 1.0, 0.0, 0.0)
"""Of bias, log-odds of the confidence, log1p(offset), log1p(position): the drafter is taken at its word."""

PRIOR_VARIANCES = (1.0, 0.1, 0.1, 0.02)
KEEP = 0.996
_MIDDLE = 4.0  # log1p of a position some way into an answer, so that position and bias are told apart
_SMALLEST = 1e-4
_LARGEST = 1e6  # of a weight or a variance; nothing that was learned comes near
_PROBIT = math.pi / 8
_N_NEWTON = 4
N_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The chance that a token stands, and the standard deviation of what is known of it."""

    mean: float
    sd: float


def _diagonal(values: Sequence[float]) -> _Matrix:
    return tuple(
        tuple(value if i == j else 0.0 for j in range(len(values))) for i, value in enumerate(values)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceModel:
    """P(token stands | all drafted before it stood): Bayesian logistic regression, one verdict at a time.

    The posterior stays Gaussian: each verdict moves it to the mode of prior times likelihood, which lies on a
    line, and narrows it by the curvature there (Spiegelhalter and Lauritzen, "Sequential updating of
    conditional probabilities on directed graphical structures", Networks 20(5), 1990, section 5.2). Before
    each verdict the covariance goes back towards the prior's by the share 1 - `keep`, so that old text is
    forgotten and nothing is ever certain for good.

    Parameters
    ----------
    weights : tuple of float, length 4
        Of bias, log-odds of the confidence, log1p(offset in the proposal), log1p(position) - 4.
    covariance : tuple of tuple of float, shape (4, 4)
    """

    weights: _Vector = PRIOR_WEIGHTS
    covariance: _Matrix = field(default_factory=lambda: _diagonal(PRIOR_VARIANCES))

    def predict(self, confidence: float, offset: int, position: int) -> Prediction:
        """The chance of a token at `offset` of a proposal that begins at `position` of the answer."""
        x = _features(confidence, offset, position)
        logit, variance = _dot(self.weights, x), max(0.0, _quadratic(self.covariance, x))
        # MacKay, "The evidence framework applied to classification networks", Neural Comput. 4(5), 1992
        mean = _sigmoid(logit / math.sqrt(1 + _PROBIT * variance))
        return Prediction(mean=mean, sd=mean * (1 - mean) * math.sqrt(variance))

    def predict_many(
        self, confidences: NDArray[np.float64], position: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same for many tokens at once: means and standard deviations.

        Parameters
        ----------
        confidences : float64 array, shape (n, Q)
            Row i is of tokens at offset i.
        position : int
        """
        held = np.clip(confidences, _SMALLEST, 1 - _SMALLEST)
        x = np.empty((*held.shape, len(self.weights)))
        x[..., 0] = 1.0
        x[..., 1] = np.log(held / (1 - held))
        x[..., 2] = np.log1p(np.arange(len(held)))[:, np.newaxis]
        x[..., 3] = math.log1p(position) - _MIDDLE
        variance = np.maximum(0.0, ((x @ np.array(self.covariance)) * x).sum(axis=-1))
        mean = 1 / (1 + np.exp(-(x @ np.array(self.weights)) / np.sqrt(1 + _PROBIT * variance)))
        return mean, mean * (1 - mean) * np.sqrt(variance)

    def learn(
        self, confidence: float, offset: int, position: int, stood: bool, *, keep: float = KEEP
    ) -> AcceptanceModel:
        """The model after a verdict on such a token; all tokens before it in the proposal stood."""
        x = _features(confidence, offset, position)
        covariance = _widened(self.covariance, 1 - keep)
        gain = _times(covariance, x)
        variance, logit = _dot(x, gain), _dot(self.weights, x)
        pull = _pull(logit, variance, float(stood))
        chance = _sigmoid(logit + variance * pull)
        spread = chance * (1 - chance)
        shrink = spread / (1 + spread * variance)
        return AcceptanceModel(
            weights=tuple([w + g * pull for w, g in zip(self.weights, gain, strict=True)]),
            covariance=tuple(
                [
                    tuple([c - shrink * g * h for c, h in zip(row, gain, strict=True)])
                    for row, g in zip(covariance, gain, strict=True)
                ]
            ),
        )

    def widened(self, share: float) -> AcceptanceModel:
        """As sure as the prior by this share, as sure as now by the rest; for when the text has moved on."""
        return AcceptanceModel(weights=self.weights, covariance=_widened(self.covariance, share))

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them."""
        return {"weights": list(self.weights), "covariance": [list(row) for row in self.covariance]}

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> AcceptanceModel:
        """The model that `to_json` wrote.

        Raises
        ------
        InputError
            If the values are not such.
        """
        weights, covariance = values.get("weights"), values.get("covariance")
        n = len(PRIOR_WEIGHTS)
        rows = [_row(row, n) for row in covariance] if isinstance(covariance, list) else []
        if len(rows) != n or any(row[i] < 0 for i, row in enumerate(rows)):
            raise InputError(f"an acceptance model needs {n} rows of covariance, got {covariance!r}")
        return cls(weights=_row(weights, n), covariance=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Predictions of a tenth: how many, their sum, and how many of the tokens stood."""

    n: int = 0
    predicted: float = 0.0
    n_stood: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How good predictions were: a fold over (predicted, stood).

    Parameters
    ----------
    n, n_stood : int
    squares : float
        Sum of (predicted - stood)^2.
    mean_squares : float
        The same for always predicting the share that stood so far, which starts at 1/2.
    bins : tuple of Bin, length 10
    """

    n: int = 0
    n_stood: int = 0
    squares: float = 0.0
    mean_squares: float = 0.0
    bins: tuple[Bin, ...] = (Bin(),) * N_BINS

    def add(self, predicted: float, stood: bool) -> Calibration:
        """With one more verdict."""
        at = min(int(predicted * N_BINS), N_BINS - 1)
        old = self.bins[at]
        new = Bin(n=old.n + 1, predicted=old.predicted + predicted, n_stood=old.n_stood + stood)
        running = (self.n_stood + 0.5) / (self.n + 1)
        return Calibration(
            n=self.n + 1,
            n_stood=self.n_stood + stood,
            squares=self.squares + (predicted - stood) ** 2,
            mean_squares=self.mean_squares + (running - stood) ** 2,
            bins=(*self.bins[:at], new, *self.bins[at + 1 :]),
        )

    @property
    def brier(self) -> float | None:
        """Mean squared error of the predictions (Brier, Mon. Weather Rev. 78(1), 1950); None without any."""
        return self.squares / self.n if self.n else None

    @property
    def brier_of_mean(self) -> float | None:
        """The same of always predicting the running mean."""
        return self.mean_squares / self.n if self.n else None

    def to_json(self) -> dict[str, object]:
        """Plain values: scores, and the reliability table."""
        table = [
            {"from": i / N_BINS, "n": n, "predicted": each.predicted / n, "stood": each.n_stood / n}
            for i, each in enumerate(self.bins)
            if (n := each.n)
        ]
        return {"n": self.n, "brier": self.brier, "brier_of_mean": self.brier_of_mean, "reliability": table}


def _widened(covariance: _Matrix, share: float) -> _Matrix:
    rows = [[(1 - share) * each for each in row] for row in covariance]
    for i, variance in enumerate(PRIOR_VARIANCES):
        rows[i][i] += share * variance
    return tuple(map(tuple, rows))


def _features(confidence: float, offset: int, position: int) -> _Vector:
    held = min(max(confidence, _SMALLEST), 1 - _SMALLEST)
    return (1.0, math.log(held / (1 - held)), math.log1p(offset), math.log1p(position) - _MIDDLE)


def _pull(logit: float, variance: float, stood: float) -> float:
    """The a with a = stood - sigmoid(logit + variance * a): how far the mode lies along the gain."""
    low, high = stood - 1, stood
    a = (low + high) / 2
    for _ in range(_N_NEWTON):
        chance = _sigmoid(logit + variance * a)
        error = a - stood + chance
        low, high = (low, a) if error > 0 else (a, high)
        a -= error / (1 + variance * chance * (1 - chance))
        if not low <= a <= high:
            a = (low + high) / 2
    return a


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-min(x, 700.0)))
    return 1 - 1 / (1 + math.exp(-max(-x, -700.0))) if x > -700 else 0.0


def _dot(a: _Vector, b: _Vector) -> float:
    a0, a1, a2, a3 = a  # written out, here and below: this is asked dozens of times a round
    b0, b1, b2, b3 = b
    return a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3


def _quadratic(matrix: _Matrix, x: _Vector) -> float:
    """The quadratic form of a symmetric matrix."""
    x0, x1, x2, x3 = x
    (m00, m01, m02, m03), (_, m11, m12, m13), (_, _, m22, m23), (_, _, _, m33) = matrix
    return (
        x0 * (m00 * x0 + 2 * (m01 * x1 + m02 * x2 + m03 * x3))
        + x1 * (m11 * x1 + 2 * (m12 * x2 + m13 * x3))
        + x2 * (m22 * x2 + 2 * m23 * x3)
        + m33 * x3 * x3
    )


def _times(matrix: _Matrix, x: _Vector) -> _Vector:
    return tuple([_dot(row, x) for row in matrix])


def _row(values: object, n: int) -> _Vector:
    given = values if isinstance(values, list) else []
    if len(given) == n and all(is_finite(each) and abs(each) <= _LARGEST for each in given):
        return tuple(map(float, given))
    raise InputError(f"an acceptance model needs rows of {n} numbers up to {_LARGEST:,}, got {values!r}")
