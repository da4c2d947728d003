"""From a draft model to a drafter: directly where the vocabularies are one, else over a bridge."""

from __future__ import annotations

from typing import Literal

from leadout.drafters.bridge import BridgeDrafter, Way
from leadout.drafters.hybrid import DraftModel
from leadout.drafters.model import ModelDrafter
from leadout.models.base import Model, Vocabulary
from leadout.models.compare import Comparison

Bridge = Literal["auto", "text", "shared"]
"""How a draft model of another vocabulary is used; with the target's vocabulary no bridge is needed."""

MIN_SHARE_BY_USE = 0.98
"""Share of the tokens in use that a draft must have for drafts by shared tokens to be preferred.

What a draft lacks it can never propose, and where it splits words otherwise it proposes their beginnings.
With SmolLM2 for Qwen2.5-Coder text has twice as many tokens accepted, greedily and sampled alike; with next to
all of them a distribution is worth more than a point mass.
"""


def connect(model: Model, target: Vocabulary, comparison: Comparison, bridge: Bridge = "auto") -> DraftModel:
    """A drafter for a target with this vocabulary.

    Raises
    ------
    InputError
        If the model cannot roll back.
    VocabularyError
        If `bridge` is "shared", and no token is.
    """
    way = way_over(comparison, bridge)
    if way is None:
        return ModelDrafter(model, forbidden=comparison.differing)
    return BridgeDrafter(model, target, comparison, way=way)


def way_over(comparison: Comparison, bridge: Bridge = "auto") -> Way | None:
    """Which bridge is taken; None where the vocabularies are one, and no bridge was asked for by name."""
    if bridge != "auto":
        return bridge
    if comparison.is_one_vocabulary:
        return None
    share = comparison.share_by_use
    return "shared" if share is not None and share >= MIN_SHARE_BY_USE else "text"


def why_this_way(comparison: Comparison, bridge: Bridge = "auto") -> str:
    """In one line: which bridge is taken and why; "" where nothing needs to be said."""
    way = way_over(comparison, bridge)
    if way is None:
        is_plain = not comparison.differing and not comparison.policies
        return "" if is_plain else f"the draft's vocabulary is {comparison.explain()}"
    over = "shared tokens" if way == "shared" else "text"
    why = " as asked for" if bridge != "auto" else ""
    return f"the draft model is {comparison.explain()}; it drafts by {over}{why}"
