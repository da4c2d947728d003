"""How far a lookup may believe that what followed a context before follows it again."""

from __future__ import annotations

ESCAPE = 2.0
"""Doubt, in occurrences, that a context of a single token leaves; measured on greedy answers."""


def belief(n_same: int, n_seen: int, length: int) -> float:
    """Chance of a token that followed `n_same` of the `n_seen` times a context of `length` tokens came.

    Longer contexts leave less room for anything new (the escape of prediction by partial matching: Cleary and
    Witten, IEEE Trans. Commun. 32(4), 1984, section III).
    """
    return n_same / (n_seen + ESCAPE / length)
