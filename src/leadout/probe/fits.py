"""Statistical tests of draws: against a known law, and of two samples against each other. Pure.

Both simulate the distribution of the likelihood ratio. Pearson's statistic would let one stray draw of a rare
token outweigh everything else, and so miss a greedy verifier in small groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadout.probe.values import Key

MIN_EXPECTED = 5
"""Tokens expected less often in a group are taken together, with all that are not told."""

REST = 0.005
"""Least probability of those taken together: rounding of kernels must not make an alarm of a rare token."""

N_SIMULATED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Draws after one beginning.

    Parameters
    ----------
    depth : int
        Tokens that the samples have in common; 0 is the control.
    n : int
        Draws.
    p_value : float
        Chance of a fit at least this bad, if the draws follow the law.
    p_value_greedy : float
        The same, had every draw been the most probable token: how well a greedy verifier would be caught.
    is_peaked : bool
        Whether every draw was the most probable token.
    """

    depth: int
    n: int
    p_value: float
    p_value_greedy: float
    is_peaked: bool


def fit_group(
    depth: int, counts: Counter[int], law: Mapping[Key, float], random: np.random.Generator
) -> Group:
    """Test the draws of one group against the law.

    Parameters
    ----------
    counts : Counter
        Draws by token.
    law : mapping
        Log probabilities of the most probable tokens.
    random : np.random.Generator
        Drives the simulation.
    """
    n = counts.total()
    often = [token for token, value in law.items() if n * math.exp(value) >= MIN_EXPECTED]
    probs = [math.exp(law[token]) for token in often]
    expected = np.array([*probs, max(REST, 1.0 - sum(probs))])
    expected /= expected.sum()
    by_key: Counter[Key] = Counter()
    by_key.update(counts)
    best = max(law, key=lambda token: law[token])

    def p_value(of: Counter[Key]) -> float:
        seen = [of[token] for token in often]
        return fit_p_value(expected, np.array([*seen, n - sum(seen)], dtype=np.int64), random)

    return Group(
        depth=depth,
        n=n,
        p_value=p_value(by_key),
        p_value_greedy=p_value(Counter({best: n})),
        is_peaked=by_key[best] == n,
    )


def two_samples(ours: Sequence[str], theirs: Sequence[str], random: np.random.Generator) -> Group:
    """Test whether two samples of texts have one law, by permutation.

    Parameters
    ----------
    ours, theirs : sequence of str
        Answers of the server under probe and of the plain side.
    random : np.random.Generator
        Drives the permutations.
    """
    first, second = Counter(ours), Counter(theirs)
    frequent = [text for text, n in (first + second).items() if n >= 2 * MIN_EXPECTED]
    seen = [*((first[text], second[text]) for text in frequent)]
    rest = (len(ours) - sum(n for n, _ in seen), len(theirs) - sum(n for _, n in seen))
    table = np.array([*seen, rest], dtype=np.int64)
    all_common = np.zeros(len(table), dtype=np.int64)
    all_common[int(table[:, 1].argmax())] = len(ours)
    return Group(
        depth=1,
        n=len(ours),
        p_value=permutation_p_value(table, random),
        p_value_greedy=permutation_p_value(np.stack([all_common, table[:, 1]], axis=1), random),
        is_peaked=_is_settled_by_the_first_word(first) and not _is_settled_by_the_first_word(second),
    )


def _is_settled_by_the_first_word(texts: Mapping[str, int]) -> bool:
    return len({text.split(" ", 1)[0] for text in texts}) == len(texts)


def fit_p_value(law: NDArray[np.float64], counts: NDArray[np.int64], random: np.random.Generator) -> float:
    """Monte-Carlo p-value of the likelihood ratio of counts against a law.

    Parameters
    ----------
    law : float64 array, shape (n,)
        Positive probabilities, summing to 1.
    counts : int64 array, shape (n,)

    Returns
    -------
    float
        In (0, 1].
    """
    total = int(counts.sum())
    simulated = random.multinomial(total, law, size=N_SIMULATED)
    return _share(_deviance(simulated, law * total), float(_deviance(counts, law * total)))


def permutation_p_value(table: NDArray[np.int64], random: np.random.Generator) -> float:
    """Monte-Carlo p-value of the likelihood ratio under permutations of who said what.

    Parameters
    ----------
    table : int64 array, shape (n, 2)
        How often each of n outcomes was said by either side.

    Returns
    -------
    float
        In (0, 1].
    """
    table = table[table.sum(axis=1) > 0]
    totals, n_first = table.sum(axis=1), int(table[:, 0].sum())
    n = int(totals.sum())
    if n_first in (0, n):
        return 1.0
    first, second = totals * (n_first / n), totals * (1 - n_first / n)

    def statistic(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return _deviance(counts, first) + _deviance(totals - counts, second)

    simulated = random.multivariate_hypergeometric(totals, n_first, size=N_SIMULATED)
    return _share(statistic(simulated), float(statistic(table[:, 0])))


def _deviance(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """The likelihood ratio statistic over the last axis."""
    ratio = np.where(counts > 0, counts / expected, 1.0)
    return np.asarray(2 * (counts * np.log(ratio)).sum(axis=-1))


def _share(simulated: NDArray[np.float64], seen: float) -> float:
    """Share of the simulated statistics that are at least as bad, this one counted."""
    return (1 + int((simulated >= seen - 1e-9).sum())) / (1 + len(simulated))
