"""Goodness of fit by simulation: could these counts be draws from exactly this distribution?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leadout.core.values import Distribution


def fit_p_value(
    law: Distribution, draws: Sequence[int], random: np.random.Generator, n_simulated: int = 4000
) -> float:
    """Monte-Carlo p-value of Pearson's chi-square statistic; no asymptotics, so small counts are fine.

    Parameters
    ----------
    law : Distribution
        The exact law.
    draws : sequence of int
        Token ids; one outside the support gives 0.
    random : np.random.Generator
        Drives the simulation.

    Returns
    -------
    float
        In (0, 1]; small means that the draws do not come from `law`. Tokens expected fewer than five times are
        taken together.
    """
    drawn = np.asarray(draws, dtype=np.int64)
    if not np.isin(drawn, law.ids).all():
        return 0.0
    counts = np.bincount(np.searchsorted(law.ids, drawn), minlength=len(law.ids))
    rare = law.probs * len(drawn) < 5
    expected = np.append(law.probs[~rare], law.probs[rare].sum())
    observed = np.append(counts[~rare], counts[rare].sum())
    if not rare.any():
        expected, observed = expected[:-1], observed[:-1]
    expected = expected / expected.sum()
    simulated = random.multinomial(len(drawn), expected, size=n_simulated)
    statistic = _pearson(observed, expected, len(drawn))
    reached = int((_pearson(simulated, expected, len(drawn)) >= statistic - 1e-9).sum())
    return (reached + 1) / (n_simulated + 1)


def _pearson(counts: NDArray[np.int64], law: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Pearson's statistic over the last axis; shape of `counts` without it."""
    return np.asarray(((counts - n * law) ** 2 / (n * law)).sum(axis=-1))
