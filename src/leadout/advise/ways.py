"""Ways to run a model, what each was measured to cost, and which is the fastest.

Values and rankings only; `tune.py` does the measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from leadout.core.cost import CostTable, attention_between, speed_of
from leadout.engine.startup import Agreement
from leadout.models.options import KvType
from leadout.models.tuned import Library

LONGEST = 8
"""Most tokens of a draft that tuning looks at."""

RUN = 4
"""Half of the tokens are reckoned to come one by one, half in passes of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A library, CPU threads, and the number format of cached keys and values."""

    provider: Library
    n_threads: int
    kv_type: KvType = "f16"

    def __str__(self) -> str:
        """Such as "ik, 2 threads, q8_0 cache"."""
        threads = f"{self.n_threads} thread{'s' if self.n_threads > 1 else ''}"
        cache = "" if self.kv_type == "f16" else f", {self.kv_type} cache"
        return f"{self.provider}, {threads}{cache}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTrial:
    """A target run one way.

    Parameters
    ----------
    costs : mapping of int to CostTable
        By tokens in the cache; at least one.
    seconds : float
        How long measuring took.
    slowdown : float >= 1
        Usual passes in the fastest ones of the same width: far above 1 where the machine was busy.
    """

    way: Way
    costs: Mapping[int, CostTable]
    seconds: float
    slowdown: float = 1.0

    @property
    def short(self) -> CostTable:
        """Costs at the shortest context."""
        return self.costs[min(self.costs)]

    @property
    def long(self) -> CostTable:
        """Costs at the longest one."""
        return self.costs[max(self.costs)]

    @property
    def costs_anywhere(self) -> CostTable:
        """Those at the shortest context, with what attention costs by the longest one."""
        n_more = max(self.costs) - min(self.costs)
        return replace(self.short, attention_s=attention_between(self.short, self.long, n_more))

    @property
    def tokens_per_s(self) -> float:
        """Of plain decoding, at the shortest context."""
        return 1 / self.short.verify_s(1)

    @property
    def mixed_tokens_per_s(self) -> float:
        """Half of the tokens one by one, half in passes of `RUN`, averaged over the contexts."""
        spent = [costs.verify_s(1) / 2 + costs.verify_s(RUN) / RUN / 2 for costs in self.costs.values()]
        return len(spent) / sum(spent)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            **asdict(self.way),
            "tokens_per_s": self.tokens_per_s,
            "mixed_tokens_per_s": self.mixed_tokens_per_s,
            "seconds": self.seconds,
            "verify_ms_by_context_and_width": {
                str(context): {str(width): 1e3 * seconds for width, seconds in costs.widths}
                for context, costs in self.costs.items()
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTrial:
    """A draft model run one way.

    Parameters
    ----------
    draft_s, read_s : float
        Seconds of a pass for one token, and of each further token that is read in it.
    agreements : tuple of Agreement
        Along the target's own answer.
    seconds : float
        How long measuring took.
    """

    way: Way
    draft_s: float
    read_s: float
    agreements: tuple[Agreement, ...]
    seconds: float

    @property
    def acceptance(self) -> float:
        """Share of its best guesses that the target would have said."""
        return sum(each.stood for each in self.agreements) / max(1, len(self.agreements))

    def costs_with(self, target: CostTable) -> CostTable:
        """Of this draft with that target."""
        return replace(target, draft_s=self.draft_s, read_s=self.read_s)

    def best(self, target: CostTable) -> tuple[int, float]:
        """The best length of a draft, at least 1, and its tokens per second."""
        costs = self.costs_with(target)
        speeds = {k: speed_of(k, self.acceptance, costs) for k in range(1, LONGEST + 1)}
        k = max(speeds, key=speeds.__getitem__)
        return k, speeds[k]

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            **asdict(self.way),
            "draft_ms": 1e3 * self.draft_s,
            "read_ms": 1e3 * self.read_s,
            "acceptance": self.acceptance,
            "n_compared": len(self.agreements),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTrial:
    """Rounds of both models as they were, one after the other in one process.

    Parameters
    ----------
    k : int
        Tokens drafted in each round.
    predicted_s, round_s : float
        What a round was to take by the passes alone, and what it took.
    tokens_per_s : float
        At the acceptance that was measured.
    n_rounds : int
    """

    target: Way
    draft: Way
    k: int
    predicted_s: float
    round_s: float
    tokens_per_s: float
    n_rounds: int

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


def fastest_target(trials: Sequence[TargetTrial]) -> TargetTrial:
    """By tokens per second where some come one by one and some in runs; the first of equals."""
    return max(trials, key=lambda trial: trial.mixed_tokens_per_s)


def ranked_drafts(trials: Sequence[DraftTrial], target: CostTable) -> list[DraftTrial]:
    """By predicted tokens per second of drafting, best first."""
    return sorted(trials, key=lambda trial: -trial.best(target)[1])
