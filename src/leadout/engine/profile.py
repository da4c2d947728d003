"""What passes cost on this machine: measured at the start within a budget, refined by every round.

Knows nothing of requests or of time itself: seconds come in, a `CostTable` goes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from leadout.core.cost import CostTable
from leadout.engine.widths import SHORTEST_S, Attention, Cost, Drift, Widths, is_drift, is_seconds
from leadout.errors import InputError

WIDEST = 64

_FIRST_DRAFT = 0.3  # a draft pass, in single target passes, until one was seen
_FIRST_READ = 0.4  # one more token that is read in a draft pass, in draft passes
_FIRST_ATTENTION = 1e-4  # for each token that is held, of what one more token in a pass costs
_MOST_ATTENTION = 1e-3  # of a single pass, for each token that is held: several times what was ever seen
_LONG, _SAME_CONTEXT = 512, 64  # tokens held: where attention shows, and how far apart tables are
_FIXED_LEARNING = 0.1
_SAME_DRIFT, _N_KEPT = 0.01, 50  # a table serves while costs are within a hundredth, for so many passes
_FAR_OFF = math.log(2)
_N_FAR_OFF = 100


class Profile:
    """Costs of a pair of models, robust against outliers, scaled by a drift that follows context and load.

    Parameters
    ----------
    costs : CostTable or None
        What was measured with one slot; None learns from the first rounds.
    """

    def __init__(self, costs: CostTable | None = None) -> None:
        self._single = Widths() if costs is None else Widths(costs.widths)
        self._shared: dict[int, Widths] = {}  # by active slots, where these are several
        self._draft: Cost | None = None
        self._read: Cost | None = None
        self._attention = Attention()
        self._fixed_s = 0.0
        self._drift, self._n_far_off = Drift(), 0
        self._tables: dict[tuple[int, int], CostTable] = {}  # made anew where they would differ noticeably
        self._table_drift = Drift()
        if costs is not None:
            self._fixed_s = costs.fixed_s
            self._attention.slope_s = costs.attention_s or _FIRST_ATTENTION * costs.extra_s(1)
            if costs.draft_s > 0:
                self._draft = Cost(costs.draft_s, 1)
                self._read = Cost(costs.read_s or costs.draft_s * _FIRST_READ, 1)

    @property
    def is_known(self) -> bool:
        """True once a single-token pass was measured; before that there is nothing to compare with."""
        return self._single.is_known

    @property
    def costs(self) -> CostTable:
        """The costs as they are now, with one slot at work.

        Raises
        ------
        InputError
            If `is_known` is false.
        """
        return self.costs_of(1)

    def costs_of(self, n_active: int, n_held: int = 0) -> CostTable:
        """The costs with that many slots at work, which draft in the same passes, and hold so many tokens.

        Raises
        ------
        InputError
            If `is_known` is false.
        """
        at = n_active, round(n_held / _SAME_CONTEXT)
        table = self._tables.get(at)
        if table is None:
            self._table_drift = replace(self._drift)
            draft_s, read_s = self._drafting()
            table = CostTable(
                widths=self._widths(n_active),
                draft_s=(draft_s + (n_active - 1) * read_s) / n_active,
                read_s=read_s,
                fixed_s=self._fixed_s,
                attention_s=self._attention.slope_s,
            )
            self._tables[at] = table = table.behind(at[1] * _SAME_CONTEXT, n_active) if at[1] else table
        return table

    def saw_verify(self, width: int, seconds: float, n_active: int = 1, n_held: int = 0) -> None:
        """A target pass of `width` tokens over `n_active` slots, which held so many each, took this long."""
        n_pairs = width * n_held
        width -= n_active - 1
        if not (1 <= width <= WIDEST and seconds > 0):
            return
        if n_pairs and self.is_known:
            bare_s = self.costs_of(n_active).verify_s(width)
            if width > 1 and n_held >= _LONG:  # single passes tell what has drifted
                self._attention.learn(n_pairs, bare_s, seconds)
            seconds *= bare_s / (bare_s + self._attention.slope_s * n_pairs)
        widths = self._single if n_active == 1 else self._shared.setdefault(n_active, Widths())
        surprise = widths.learn(width, seconds / self._drift.factor(width))
        if surprise is None or width > 1 or widths.n_passes % _N_KEPT == 0:
            self._tables.clear()
        if surprise is not None:
            self._drift.learn(width, surprise)
            self._after_drift()

    def saw_draft(self, n_passes: int, n_read: int, seconds: float) -> None:
        """So many draft passes took this long, with `n_read` more tokens than one in each."""
        if n_passes < 1 or seconds <= 0:
            return
        drift = self._draft_drift
        if self._draft is None or self._read is None:
            each = seconds / drift / (n_passes + _FIRST_READ * n_read)
            self._draft, self._read = Cost(each, 1), Cost(each * _FIRST_READ)
        else:
            drafting, reading = n_passes * self._draft.seconds, n_read * self._read.seconds
            surprise = math.log(seconds / drift / (drafting + reading))
            (self._draft if drafting >= reading else self._read).learn(surprise)
        self._tables.clear()

    def saw_other(self, seconds: float) -> None:
        """The rest of a round took this long."""
        seconds = min(seconds, 4 * self._fixed_s) if self._fixed_s else seconds
        self._fixed_s += _FIXED_LEARNING * (seconds - self._fixed_s)

    @property
    def _draft_drift(self) -> float:
        """What costs of draft passes are multiplied by: as those of wide ones, arithmetic weighs in them."""
        return self._drift.factor(WIDEST)

    def _widths(self, n_active: int) -> tuple[tuple[int, float], ...]:
        """What was seen with that many slots; before that, what one slot needs for as many tokens."""
        shared = self._shared.get(n_active)
        if shared is not None and shared.is_known:
            return shared.table(self._drift)
        single = self._single.table(self._drift)
        if n_active == 1:
            return single
        alone = CostTable(widths=single)
        wider = [width - n_active + 1 for width, _ in single if width > n_active]
        return tuple((width, alone.verify_s(width + n_active - 1)) for width in (1, *wider))

    def _drafting(self) -> tuple[float, float]:
        """Seconds of a draft pass, and of one more token in it."""
        if self._draft is None or self._read is None:
            draft_s = _FIRST_DRAFT * self._single.table(self._drift)[0][1]
            return draft_s, _FIRST_READ * draft_s
        drift = self._draft_drift
        return self._draft.seconds * drift, self._read.seconds * drift

    def _after_drift(self) -> None:
        """Follow what costs have in common; forget them one by one when they are far off for long."""
        if not self._drift.is_near(self._table_drift, _SAME_DRIFT):
            self._tables.clear()
        self._n_far_off = 0 if self._drift.is_near(Drift(), _FAR_OFF) else self._n_far_off + 1
        if self._n_far_off < _N_FAR_OFF:
            return
        for widths in (self._single, *self._shared.values()):
            widths.forget(self._drift)
        for cost in (self._draft, self._read):
            if cost is not None:
                cost.seconds, cost.n = cost.seconds * self._draft_drift, 0
        self._drift, self._n_far_off = Drift(), 0

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them. What several slots cost is learned anew each time."""
        return {
            "widths": self._single.to_json(),
            "drift": self._drift.single,
            "wide_drift": self._drift.wide,
            "draft_s": 0.0 if self._draft is None else self._draft.seconds,
            "read_s": 0.0 if self._read is None else self._read.seconds,
            "fixed_s": self._fixed_s,
            "attention_s": self._attention.slope_s,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Profile:
        """The profile that `to_json` wrote.

        Raises
        ------
        InputError
            If the values are not such.
        """
        single = [values.get(name) for name in ("draft_s", "read_s", "fixed_s", "attention_s")]
        drift = [values.get(name) for name in ("drift", "wide_drift")]
        if not all(map(is_seconds, single)) or not all(map(is_drift, drift)):
            raise InputError(f"a profile needs seconds for draft_s, read_s and so on, got {values!r}")
        made = cls()
        made._single = Widths.from_json(values.get("widths"))
        made._drift = Drift(*(float(value) for value in drift))  # type: ignore[arg-type]
        draft_s, read_s, made._fixed_s, slope_s = (float(value) for value in single)  # type: ignore[arg-type]
        if draft_s > 0:
            draft_s = max(SHORTEST_S, draft_s)
            made._draft = Cost(draft_s, 1)
            made._read = Cost(max(SHORTEST_S, read_s or draft_s * _FIRST_READ), 1)
        if made.is_known:
            made._attention.slope_s = min(slope_s, _MOST_ATTENTION * made.costs.verify_s(1))
            made._tables.clear()
        return made
