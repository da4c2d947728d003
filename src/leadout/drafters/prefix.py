"""How much of a cache serves a new prompt."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCK = 256  # compared at once, which for lists is some ten times faster than id by id


def common_prefix(held: Sequence[int], wanted: Sequence[int]) -> int:
    """Number of leading ids that `held` and `wanted` share."""
    n = min(len(held), len(wanted))
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        if list(held[start:stop]) != list(wanted[start:stop]):
            return next(i for i in range(start, stop) if held[i] != wanted[i])
    return n
