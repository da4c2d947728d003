"""Speeds predicted from costs: of a draft model, of lookups, of both together; and costs guessed from sizes.

Guesses rank files that nobody has measured yet. Their constants are read off measured passes of five
quantisations of four models on one machine (two cores, AVX2, 26 GB/s); only ratios are believed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Literal

from leadout.advise.inspect import FileFacts, Reading
from leadout.core.cost import CostTable

Basis = Literal["measured", "profile", "sizes"]
"""What a prediction rests on: answers replayed with measured costs; costs and verdicts of earlier rounds; or
file sizes and the speed of memory."""

BASES: Mapping[Basis, str] = MappingProxyType(
    {
        "measured": "measured by a check",
        "profile": "from rounds measured here",
        "sizes": "estimated from file sizes and the memory's speed; `leadout check` measures it",
    }
)

LONGEST = 15
ROUND_S = 0.0003
"""What a round takes beside the models' passes."""

LOOKUP_SHARE, LOOKUP_ACCEPTANCE = 0.2, 0.75
"""Rounds in which lookups usually find something, and how often a token of that stands."""

_LAYER_S = 0.0001  # a pass's fixed work in each layer
_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
_READ_SHARE = 0.4  # of a draft pass, for each further token read in it
_KINDS = ((6.9, 0.7, 0.3), (9.5, 0.85, 0.2), (math.inf, 1.0, 0.15))
"""Up to so many bits a weight: the share of the memory's speed that kernels reach, and what one more token in
a pass costs, in single passes."""
_GPU_SLOPE = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPlan:
    """How fast a target will probably be, and what it rests on.

    Parameters
    ----------
    plain : float
        Tokens per second, decoding plainly.
    lookups : float
        Speedup with lookups alone.
    basis : Basis
    speedup : float or None
        Speedup with a draft model beside them, where there is one.
    """

    plain: float
    lookups: float
    basis: Basis
    speedup: float | None = None

    def explain(self) -> str:
        """One sentence."""
        draft = "" if self.speedup is None else f"; with the draft {self.speedup:.2f}x"
        lookups = f"with lookups alone {self.lookups:.2f}x"
        return f"plain {self.plain:.1f} tok/s; {lookups}{draft} ({BASES[self.basis]})"

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


def estimated_costs(
    target: Reading, draft: Reading | None, bytes_per_s: float, *, on_gpu: bool = False
) -> CostTable:
    """What passes probably cost, from the bytes that they read.

    Parameters
    ----------
    target, draft : Reading
    bytes_per_s : float
        How fast memory is read.
    on_gpu : bool
        Wide passes are nearly free there.
    """
    single = _pass_s(target, 1, bytes_per_s)
    slope = _GPU_SLOPE if on_gpu else _kind(target)[1]
    widths = tuple(
        (width, _pass_s(target, width, bytes_per_s) + slope * (width - 1) * single) for width in _WIDTHS
    )
    draft_s = 0.0 if draft is None else _pass_s(draft, 1, bytes_per_s)
    return CostTable(widths=widths, draft_s=draft_s, read_s=_READ_SHARE * draft_s, fixed_s=ROUND_S)


def likely_acceptance(target: FileFacts, draft: FileFacts, *, same_vocabulary: bool) -> float:
    """How often a draft's token stands, usually: more for larger ones, less across vocabularies."""
    ratio = draft.n_params / max(1, target.n_params)
    return max(0.3, min(0.95, 0.92 + 0.08 * math.log(max(ratio, 1e-3))) - (0.0 if same_vocabulary else 0.1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Rounds of one kind: the tokens and the seconds of one, on average."""

    tokens: float
    seconds: float


def model_rounds(costs: CostTable, acceptance: float, k: int) -> Rounds:
    """Rounds that draft k tokens with a model; k = 0 is plain decoding.

    The expected tokens are those of Leviathan et al., arXiv 2211.17192, equation 1, with the bonus token.
    """
    tokens = sum(acceptance**i for i in range(k + 1))
    return Rounds(tokens=tokens, seconds=costs.plain_s() + costs.extra_s(k) + costs.drafting_s(k))


def fixed_speedup(costs: CostTable, acceptance: float, k: int) -> float:
    """Speed of drafting k tokens in every round, as a share of plain decoding's."""
    rounds = model_rounds(costs, acceptance, k)
    return rounds.tokens * costs.plain_s() / rounds.seconds


def best_speedup(costs: CostTable, acceptance: float | None, *, lookups: bool = True) -> tuple[float, int]:
    """The best a fixed draft length gives, beside lookups, and that length; acceptance None is no model.

    Returns
    -------
    speedup : float
        At least 1, as plain decoding is always allowed.
    k : int
        Tokens that the model drafts; 0 where it would lose.
    """
    found = _lookup_rounds(costs) if lookups else model_rounds(costs, 0.0, 0)
    share = LOOKUP_SHARE if lookups else 0.0
    best, best_k = 1.0, 0
    for k in range(LONGEST + 1 if acceptance is not None and costs.draft_s > 0 else 1):
        rest = model_rounds(costs, acceptance or 0.0, k)
        tokens = share * found.tokens + (1 - share) * rest.tokens
        seconds = share * found.seconds + (1 - share) * rest.seconds
        speed = tokens * costs.plain_s() / seconds
        if speed > best + 1e-9:
            best, best_k = speed, k
    return best, best_k


def _lookup_rounds(costs: CostTable) -> Rounds:
    rounds = [
        Rounds(
            tokens=sum(LOOKUP_ACCEPTANCE**i for i in range(k + 1)), seconds=costs.plain_s() + costs.extra_s(k)
        )
        for k in range(LONGEST + 1)
    ]
    return max(rounds, key=lambda each: each.tokens / each.seconds)


def _pass_s(reading: Reading, width: int, bytes_per_s: float) -> float:
    return reading.bytes_at(width) / (bytes_per_s * _kind(reading)[0]) + reading.n_layers * _LAYER_S


def _kind(reading: Reading) -> tuple[float, float]:
    return next((share, slope) for bits, share, slope in _KINDS if reading.bits <= bits)
