"""Exact laws of programs that draw: every branch of chance is taken once, with its probability.

A program takes its chance from a `Branches` source and nowhere else; `outcomes` runs it once per branch. So a
verification rule, or a drafter with a rule after it, is checked against the target's law without sampling
error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from leadout.core.values import Distribution

Tokens = tuple[int, ...]
Table = Callable[[Tokens], Distribution]
"""A toy model: the distribution of the next token after these."""

T = TypeVar("T")


class Branches:
    """A `Source` that follows a script of branches, then the first branch of each choice.

    Attributes
    ----------
    weight : float
        Probability of the branches taken so far.
    """

    def __init__(self, script: tuple[int, ...] = ()) -> None:
        self._script = script
        self._taken: list[tuple[int, int]] = []  # (branch, number of branches)
        self.weight = 1.0

    def accepts(self, probability: float) -> bool:
        """Both answers, as far as they are possible."""
        return bool(self.choose([(1, probability), (0, 1 - probability)]))

    def draw(self, distribution: Distribution) -> int:
        """Every id of the support."""
        return self.choose(zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True))

    def choose(self, options: Iterable[tuple[int, float]]) -> int:
        """One of the (value, probability) options of positive probability."""
        possible = [option for option in options if option[1] > 0]
        depth = len(self._taken)
        at = self._script[depth] if depth < len(self._script) else 0
        value, probability = possible[at]
        self._taken.append((at, len(possible)))
        self.weight *= probability
        return value

    def untaken(self) -> Iterator[tuple[int, ...]]:
        """Scripts of the branches that start off this run, beyond its script."""
        path = tuple(at for at, _ in self._taken)
        for depth in range(len(self._script), len(path)):
            for other in range(1, self._taken[depth][1]):
                yield (*path[:depth], other)


def outcomes(program: Callable[[Branches], T]) -> Iterator[tuple[T, float]]:
    """What `program` returns in each of its branches, with the branch's probability."""
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        source = Branches(scripts.pop())
        result = program(source)
        yield result, source.weight
        scripts.extend(source.untaken())


def continued(emitted: Iterable[tuple[Tokens, float]], target: Table, length: int) -> dict[Tokens, float]:
    """The law of the first `length` tokens when the target goes on plainly after the emitted ones."""
    law: dict[Tokens, float] = {}
    todo = list(emitted)
    for size in range(length):
        merged: dict[Tokens, float] = {}
        for tokens, weight in todo:
            merged[tokens] = merged.get(tokens, 0.0) + weight
        todo = [item for item in merged.items() if len(item[0]) > size]
        for tokens in [tokens for tokens in merged if len(tokens) == size]:
            row = target(tokens)
            todo += [
                ((*tokens, int(i)), merged[tokens] * float(p))
                for i, p in zip(row.ids, row.probs, strict=True)
            ]
    for tokens, weight in todo:
        law[tokens[:length]] = law.get(tokens[:length], 0.0) + weight
    return law


def joint_law(target: Table, length: int) -> dict[Tokens, float]:
    """The target's own law of the first `length` tokens."""
    return continued([((), 1.0)], target, length)


def largest_difference(law: Mapping[Tokens, float], other: Mapping[Tokens, float]) -> float:
    """The largest difference of two laws over all outcomes of either."""
    return max(abs(law.get(key, 0.0) - other.get(key, 0.0)) for key in law.keys() | other.keys())


def random_table(seed: int, n_vocab: int, *, n_kept: int | None = None, only: Tokens | None = None) -> Table:
    """A toy model with random rows that depend on the whole prefix.

    Parameters
    ----------
    seed, n_vocab : int
        Same arguments, same rows.
    n_kept : int or None
        Each row keeps this many of its ids, at random; None keeps all.
    only : tuple of int or None
        The ids that may have probability at all; None is 0..n_vocab-1.
    """
    allowed = np.arange(n_vocab) if only is None else np.array(only, dtype=np.int64)
    rows: dict[Tokens, Distribution] = {}

    def row(prefix: Tokens) -> Distribution:
        if prefix not in rows:
            generator = np.random.default_rng([seed, n_vocab, len(prefix), *prefix])
            size = allowed.size if n_kept is None else min(n_kept, allowed.size)
            ids = np.sort(generator.choice(allowed, size=size, replace=False))
            rows[prefix] = Distribution(ids=ids, probs=generator.dirichlet(np.full(size, 0.7)))
        return rows[prefix]

    return row
