"""Goodness of fit by simulation: could these counts be draws from exactly this law?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fit_p_value(
    law: NDArray[np.float64],
    counts: NDArray[np.int64],
    random: np.random.Generator,
    n_simulated: int = 10_000,
) -> float:
    """Monte-Carlo p-value of Pearson's chi-square statistic; no asymptotics, so small counts are fine.

    Parameters
    ----------
    law : float64 array, shape (n,)
        Exact probabilities of the outcomes, summing to 1.
    counts : int64 array, shape (n,)
        How often each was drawn.
    random : np.random.Generator
        Drives the simulation.

    Returns
    -------
    float
        In (0, 1], small when the draws do not come from `law`; 0 when an outcome of probability 0 was drawn.
    """
    possible = law > 0
    if counts[~possible].any():
        return 0.0
    expected, observed, n = law[possible] / law[possible].sum(), counts[possible], int(counts.sum())
    statistic = _pearson(observed, expected, n)
    simulated = _pearson(random.multinomial(n, expected, size=n_simulated), expected, n)
    n_as_bad = int((simulated >= statistic * (1 - 1e-9)).sum())
    return (1 + n_as_bad) / (1 + n_simulated)


def _pearson(counts: NDArray[np.int64], law: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Pearson's statistic over the last axis; shape of `counts` without it."""
    return np.asarray(((counts - n * law) ** 2 / (n * law)).sum(axis=-1))
