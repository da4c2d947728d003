"""What rounds cost in a run: passes of the target by width, and the draft model's, timed for their own sake.

Measured before and after the run, so that a machine that warms up or slows down shows in the spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from leadout.bench.record import Spread
from leadout.bench.widths import WIDTHS, pass_times
from leadout.core.cost import CostTable, attention_between
from leadout.core.noise import RandomSource
from leadout.core.values import History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.model import ModelDrafter
from leadout.models.base import Model

LENGTH, LONG = 256, 1024
"""Tokens in the cache before each pass, and before those that tell what attention costs."""

REPEATS = 3
LONG_WIDTHS = (1, 4, 16)
DRAFT_K, N_READ = 8, 64
_SLOT = 0


@dataclass(slots=True)
class MeasuredCosts:
    """Times of a target and its draft model, in seconds, as they came.

    Parameters
    ----------
    verify_s, long_s : dict of width to list of float
        Behind `LENGTH` tokens and behind `LONG` ones, or what the model has room for.
    draft_s : list of float
        Per token of a draft of `DRAFT_K`.
    read_s : list of float
        Per further token that is read in a draft pass.
    """

    verify_s: dict[int, list[float]] = field(default_factory=dict)
    draft_s: list[float] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    long_s: dict[int, list[float]] = field(default_factory=dict)
    _lengths: tuple[int, int] = (LENGTH, LONG)

    def measure(
        self, target: Model, draft: Model | None, *, length: int = LENGTH, repeats: int = REPEATS
    ) -> None:
        """Time everything `repeats` times more; slot 0 of both models is used, and empty afterwards."""
        longest = target.info.n_ctx - max(WIDTHS)
        length, long = self._lengths = min(length, longest), min(LONG, longest)
        for seen, widths, before in (self.verify_s, WIDTHS, length), (self.long_s, LONG_WIDTHS, long):
            times = pass_times({"target": target}, widths, length=before, repeats=repeats)["target"]
            for width, seconds in times.items():
                seen.setdefault(width, []).extend(seconds)
        target.truncate(_SLOT, 0)
        if draft is not None:
            self._measure_draft(draft, length, repeats)

    def _measure_draft(self, draft: Model, length: int, repeats: int) -> None:
        random, most = np.random.default_rng(0), draft.info.n_ctx // 4
        k, n_read = min(DRAFT_K, most), min(N_READ, most)
        length = min(length, draft.info.n_ctx - k - n_read)
        text = random.integers(0, draft.vocab.size, length + n_read).tolist()
        for _ in range(repeats):
            draft.truncate(_SLOT, 0)
            drafter = ModelDrafter(draft)
            drafter.begin(_SLOT, DraftPrompt(ids=text[:length]))
            drafter.propose([_request(text[:length], 1)])  # reads the text
            drafter.observe(_SLOT, ())
            each = _propose_s(drafter, text[:length], k) / k
            drafter.observe(_SLOT, ())
            reading = _propose_s(drafter, text, 1) - each
            self.draft_s.append(each)
            self.read_s.append(max(0.0, reading) / n_read)
        draft.truncate(_SLOT, 0)

    def table(self, fixed_s: float) -> CostTable:
        """Medians, with `fixed_s` for the rest of a round; widths are brought to where nothing is held."""
        length, long = self._lengths
        seen, behind = (CostTable(widths=_medians(each)) for each in (self.verify_s, self.long_s))
        attention_s = attention_between(seen, behind, long - length)
        return CostTable(
            widths=tuple(
                (width, max(each / 2, each - attention_s * width * length)) for width, each in seen.widths
            ),
            attention_s=attention_s,
            draft_s=float(np.median(self.draft_s)) if self.draft_s else 0.0,
            read_s=float(np.median(self.read_s)) if self.read_s else 0.0,
            fixed_s=fixed_s,
        )

    @property
    def verify_ms(self) -> dict[int, Spread]:
        """Milliseconds of a pass by width."""
        return {width: _ms(seconds) for width, seconds in sorted(self.verify_s.items())}

    def to_json(self) -> dict[str, object]:
        """Milliseconds with their spread."""
        return {
            "verify_ms_by_width": {str(width): spread for width, spread in self.verify_ms.items()},
            "long_verify_ms_by_width": {str(width): _ms(each) for width, each in sorted(self.long_s.items())},
            "draft_ms": _ms(self.draft_s) if self.draft_s else None,
            "read_ms": _ms(self.read_s) if self.read_s else None,
        }


def _medians(seconds: Mapping[int, Sequence[float]]) -> tuple[tuple[int, float], ...]:
    return tuple((width, float(np.median(each))) for width, each in sorted(seconds.items()))


def _propose_s(drafter: ModelDrafter, context: Sequence[int], k: int) -> float:
    started = perf_counter()
    drafter.propose([_request(context, k)])
    return perf_counter() - started


def _request(context: Sequence[int], k: int) -> DraftRequest:
    return DraftRequest(
        slot=_SLOT,
        context=context,
        k=k,
        sampling=Sampling(temperature=0.0),
        history=History(),
        position=1,
        noise=None,
        source=RandomSource(np.random.default_rng(0)),  # never asked: greedy
    )


def _ms(seconds: Sequence[float]) -> Spread:
    return Spread.of([1e3 * each for each in seconds])
