"""How long drafts of a fixed length are best, by what earlier rounds of this pair taught on this machine."""

from __future__ import annotations

from pathlib import Path

from leadout.advise.known import Known, recall_rounds
from leadout.launch.engine import DefaultK
from leadout.models.options import GgufOptions

LONGEST = 16


def known_length(target: Path, draft: Path) -> DefaultK | None:
    """The length with the most expected tokens per second, or None where this pair was never run here."""
    known = recall_rounds(target, draft, GgufOptions())
    return None if known is None else best_length(known)


def best_length(known: Known) -> DefaultK | None:
    """The length with the most expected tokens per second; None where no draft was ever judged."""
    if known.acceptance is None or known.costs.draft_s <= 0:
        return None
    plain = 1 / known.costs.plain_s()
    rates = {k: _rate(known, known.acceptance, k) for k in range(1, LONGEST + 1)}
    best = max(rates, key=lambda k: rates[k])
    return DefaultK(
        k=best,
        why=f"by leadout's own rounds of this pair on this machine: {known.acceptance:.0%} of drafted tokens "
        f"stood, which predicts {rates[best] / plain:.2f} times the plain speed with leadout's passes",
    )


def _rate(known: Known, acceptance: float, k: int) -> float:
    """Expected tokens per second of rounds of k (Leviathan et al., arXiv 2211.17192, section 3.1)."""
    tokens = sum(acceptance**i for i in range(k + 1))
    costs = known.costs
    return tokens / (costs.drafting_s(k, 2) + costs.verify_s(k + 1) + costs.fixed_s)
