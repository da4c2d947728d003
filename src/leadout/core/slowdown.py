"""How busy a machine was, by passes that should take equally long: usual ones far above the fastest were
disturbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

DISTURBED = 2.0
"""A slowdown that no idle machine has."""

_SHORTEST_S = 3e-3  # shorter passes vary by themselves
_FEWEST = 4


def slowdown(seconds: Sequence[float]) -> float:
    """The usual one of these times in fastest ones; 1 where they are too few, or too short, to tell."""
    if len(seconds) < _FEWEST or min(seconds) < _SHORTEST_S:
        return 1.0
    return median(seconds) / min(seconds)


def disturbance(times: float) -> str:
    """Words for a slowdown of so many times, or "" where an idle machine has as much."""
    if times < DISTURBED:
        return ""
    return f"something else kept this machine busy: passes took {times:.1f} times as long as the fastest"


def not_kept(times: float, do: str) -> str:
    """The same of a measurement that is thrown away for it; `do` names what to do again."""
    busy = disturbance(times)
    return busy and f"{busy}; this is not kept, {do} again when the machine is idle"
