"""How much of a cache serves a new prompt."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(held: Sequence[int], wanted: Sequence[int]) -> int:
    """Number of leading ids that `held` and `wanted` share."""
    for i, (a, b) in enumerate(zip(held, wanted, strict=False)):
        if a != b:
            return i
    return min(len(held), len(wanted))
