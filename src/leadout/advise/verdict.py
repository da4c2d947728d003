"""Use it or not, and why: one plain sentence from predicted speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Advice = Literal["use", "lookups", "plain", "cannot"]
"""Use the draft model; leave it out, as lookups do as well; decode plainly; it cannot be used at all."""

PAYS = 1.02
"""Less than this is within the errors of any prediction."""

_DEAR = 0.4  # a draft pass, in target passes
_RARELY_RIGHT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do, and a sentence that says so."""

    advice: Advice
    sentence: str


def decide(
    speedup: float,
    lookups: float,
    *,
    interval: str = "",
    cost_ratio: float | None = None,
    agreement: float | None = None,
) -> Verdict:
    """Judge a draft model.

    Parameters
    ----------
    speedup : float
        Predicted with it, as a share of plain decoding's speed.
    lookups : float
        Predicted without it.
    interval : str
        How sure that is, such as " (1.25-1.40)".
    cost_ratio : float or None
        A draft pass in target passes.
    agreement : float or None
        Share of its guesses that are right.
    """
    if speedup >= PAYS and speedup >= lookups * PAYS:
        than = f"; lookups alone would give {lookups:.2f}x" if lookups >= PAYS else ""
        return Verdict(
            advice="use", sentence=f"Recommended: predicted {speedup:.2f}x plain decoding{interval}{than}."
        )
    why = _why(cost_ratio, agreement)
    if lookups >= PAYS:
        return Verdict(
            advice="lookups",
            sentence=f"Not recommended, predicted {speedup:.2f}x{interval}: no draft model, lookups pay "
            f"as much or more ({lookups:.2f}x){why}.",
        )
    reason = why.removeprefix(", as ") or "a pass over several tokens costs too much here"
    return Verdict(advice="plain", sentence=f"Not recommended, predicted {speedup:.2f}x{interval}: {reason}.")


def decide_lookups(lookups: float) -> Verdict:
    """Judge lookups by themselves, where there is no draft model."""
    if lookups >= PAYS:
        return Verdict(
            advice="lookups", sentence=f"No draft model: lookups alone are predicted to give {lookups:.2f}x."
        )
    return Verdict(
        advice="plain",
        sentence=f"This target is too small to gain: predicted {lookups:.2f}x with lookups, and no draft "
        "model is cheap enough beside it.",
    )


def _why(cost_ratio: float | None, agreement: float | None) -> str:
    reasons = []
    if cost_ratio is not None and cost_ratio >= _DEAR:
        reasons.append(f"a pass of the draft costs {cost_ratio:.0%} of the target's")
    if agreement is not None and agreement < _RARELY_RIGHT:
        reasons.append(f"only {agreement:.0%} of the draft's tokens are what the target says")
    return f", as {' and '.join(reasons)}" if reasons else ""
