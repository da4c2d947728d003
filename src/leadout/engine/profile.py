"""What passes cost on this machine: measured at the start within a budget, refined by every round.

Knows nothing of requests or of time itself: seconds come in, a `CostTable` goes out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadout.checks import is_finite
from leadout.core.cost import UNKNOWN_SLOPE, CostTable
from leadout.errors import InputError

WIDEST = 64
STALE_PASSES = 400
"""Passes after which a width that none of them had counts as no dearer than its neighbours suggest."""

_FIRST_DRAFT = 0.3  # a draft pass, in single target passes, until one was seen
_FIRST_READ = 0.4  # one more token that is read in a draft pass, in draft passes
_SLOWEST_LEARNING = 0.05
_DRIFT_LEARNING = 0.1
_SAME_DRIFT, _N_KEPT = 0.01, 50  # a table serves while costs are within a hundredth, for so many passes
_DRIFT_BY_OTHERS = 0.03  # of passes with a draft, whose width has a cost of its own
_LARGEST_SURPRISE = 0.5  # in natural logarithms of seconds; an outlier counts as no more
_N_UNSURE = 3  # samples after which surprises are bounded
_FAR_OFF = math.log(2)
_LARGEST_DRIFT, _LONGEST_S = 20.0, 1e9  # nothing that was measured is beyond these
_N_FAR_OFF = 100
_STEEPEST = 1.5  # a pass of w tokens that took longer than this many times w single ones was disturbed


@dataclass(slots=True)
class _Cost:
    """Seconds of one thing, without the drift that all share; how often it was seen, and when last."""

    seconds: float
    n: int = 0
    seen_at: int = 0

    def learn(self, surprise: float) -> None:
        """Move towards what was seen; `surprise` is log(seen / expected)."""
        self.n += 1
        if self.n > _N_UNSURE:
            surprise = bounded(surprise)
        self.seconds *= math.exp(max(_SLOWEST_LEARNING, 1 / self.n) * surprise)


class Widths:
    """Seconds of passes by width, for one number of active slots.

    A width that was found dear is not tried again, so a wrong cost would stay: once `STALE_PASSES` went by
    without it, it counts as no dearer than the line between widths that are better known, until it is seen
    again.
    """

    def __init__(self, known: Iterable[tuple[int, float]] = ()) -> None:
        self._costs = {width: _Cost(seconds, _N_UNSURE) for width, seconds in known}
        self.n_passes = 0

    @property
    def is_known(self) -> bool:
        """True once a pass of width 1 was seen."""
        return 1 in self._costs

    def learn(self, width: int, seconds: float) -> float | None:
        """A pass took this long, the drift aside.

        Returns
        -------
        float or None
            log(seen / expected), where the width was well known.
        """
        self.n_passes += 1
        cost = self._costs.get(width)
        if cost is None or not self._is_plausible(width) or self._is_stale(width):
            self._costs[width] = _Cost(seconds, 1, self.n_passes)
            return None
        surprise, is_sure = math.log(seconds / cost.seconds), cost.n >= _N_UNSURE
        cost.seen_at = self.n_passes
        if width > 1 or not is_sure:  # single passes are what the drift is measured by
            cost.learn(surprise)
        return surprise if is_sure else None

    def table(self, drift: float) -> tuple[tuple[int, float], ...]:
        """Width and seconds, ascending."""
        widths = [width for width in sorted(self._costs) if self._is_plausible(width)]
        fresh = [width for width in widths if not self._is_stale(width)]
        if len(fresh) == len(widths):
            return tuple((width, self._costs[width].seconds * drift) for width in widths)
        known = CostTable(widths=tuple((width, self._costs[width].seconds) for width in fresh))
        single = self._costs[1].seconds
        found = []
        for width in widths:
            seconds = self._costs[width].seconds
            if self._is_stale(width):
                line = single * (1 + UNKNOWN_SLOPE * (width - 1))
                seconds = min(seconds, known.verify_s(width), line)
            found.append((width, seconds * drift))
        return tuple(found)

    def forget(self, factor: float) -> None:
        """All costs are off by this factor, and are to be learned anew."""
        for cost in self._costs.values():
            cost.seconds, cost.n = cost.seconds * factor, 0

    def to_json(self) -> dict[str, list[float]]:
        """Width to seconds and the passes since it was seen."""
        return {
            str(width): [cost.seconds, self.n_passes - cost.seen_at]
            for width, cost in sorted(self._costs.items())
        }

    @classmethod
    def from_json(cls, values: object) -> Widths:
        """What `to_json` wrote; raises InputError if the values are not such."""
        made = cls()
        if not isinstance(values, dict):
            raise InputError(f"a profile needs seconds for widths, got {values!r}")
        for width, pair in values.items():
            if not (isinstance(pair, list) and len(pair) == 2 and all(map(is_seconds, pair)) and pair[0] > 0):
                raise InputError(f"a profile needs seconds and age for each width, got {pair!r}")
            if not width.isdecimal() or int(width) < 1:
                raise InputError(f"a profile needs widths that are whole numbers, got {width!r}")
            made._costs[int(width)] = _Cost(float(pair[0]), _N_UNSURE, -int(pair[1]))
        return made

    def _is_stale(self, width: int) -> bool:
        return width > 1 and self.n_passes - self._costs[width].seen_at > STALE_PASSES

    def _is_plausible(self, width: int) -> bool:
        """Whether what is known of this width can be its cost, and not a busy moment of the machine."""
        single = self._costs.get(1)
        return single is None or self._costs[width].seconds <= _STEEPEST * width * single.seconds


class Profile:
    """Costs of a pair of models, robust against outliers, scaled by one drift that follows context and load.

    Parameters
    ----------
    costs : CostTable or None
        What was measured with one slot; None learns from the first rounds.
    """

    def __init__(self, costs: CostTable | None = None) -> None:
        self._single = Widths() if costs is None else Widths(costs.widths)
        self._shared: dict[int, Widths] = {}  # by active slots, where these are several
        self._draft: _Cost | None = None
        self._read: _Cost | None = None
        self._fixed_s = 0.0
        self._log_drift, self._n_far_off = 0.0, 0
        self._tables: dict[int, CostTable] = {}  # made anew where they would differ noticeably
        self._table_drift = 0.0
        if costs is not None:
            self._fixed_s = costs.fixed_s
            if costs.draft_s > 0:
                self._draft = _Cost(costs.draft_s, 1)
                self._read = _Cost(costs.read_s or costs.draft_s * _FIRST_READ, 1)

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

    def costs_of(self, n_active: int) -> CostTable:
        """The costs with that many slots at work, which draft in the same passes.

        Raises
        ------
        InputError
            If `is_known` is false.
        """
        table = self._tables.get(n_active)
        if table is None:
            self._table_drift = self._log_drift
            drift = math.exp(self._log_drift)
            draft_s, read_s = self._drafting(drift)
            table = CostTable(
                widths=self._widths(n_active, drift),
                draft_s=(draft_s + (n_active - 1) * read_s) / n_active,
                read_s=read_s,
                fixed_s=self._fixed_s,
            )
            self._tables[n_active] = table
        return table

    def saw_verify(self, width: int, seconds: float, n_active: int = 1) -> None:
        """A target pass of `width` tokens over `n_active` slots took this long."""
        width -= n_active - 1
        if not (1 <= width <= WIDEST and seconds > 0):
            return
        widths = self._single if n_active == 1 else self._shared.setdefault(n_active, Widths())
        surprise = widths.learn(width, seconds / math.exp(self._log_drift))
        if surprise is None or width > 1 or widths.n_passes % _N_KEPT == 0:
            self._tables.clear()
        if surprise is not None:
            self._drift(bounded(surprise) * (_DRIFT_LEARNING if width == 1 else _DRIFT_BY_OTHERS))

    def saw_draft(self, n_passes: int, n_read: int, seconds: float) -> None:
        """So many draft passes took this long, with `n_read` more tokens than one in each."""
        if n_passes < 1 or seconds <= 0:
            return
        drift = math.exp(self._log_drift)
        if self._draft is None or self._read is None:
            each = seconds / drift / (n_passes + _FIRST_READ * n_read)
            self._draft, self._read = _Cost(each, 1), _Cost(each * _FIRST_READ)
        else:
            drafting, reading = n_passes * self._draft.seconds, n_read * self._read.seconds
            surprise = math.log(seconds / drift / (drafting + reading))
            (self._draft if drafting >= reading else self._read).learn(surprise)
        self._tables.clear()

    def saw_other(self, seconds: float) -> None:
        """The rest of a round took this long."""
        seconds = min(seconds, 4 * self._fixed_s) if self._fixed_s else seconds
        self._fixed_s += _DRIFT_LEARNING * (seconds - self._fixed_s)

    def _widths(self, n_active: int, drift: float) -> tuple[tuple[int, float], ...]:
        """What was seen with that many slots; before that, what one slot needs for as many tokens."""
        shared = self._shared.get(n_active)
        if shared is not None and shared.is_known:
            return shared.table(drift)
        single = self._single.table(drift)
        if n_active == 1:
            return single
        alone = CostTable(widths=single)
        wider = [width - n_active + 1 for width, _ in single if width > n_active]
        return tuple((width, alone.verify_s(width + n_active - 1)) for width in (1, *wider))

    def _drafting(self, drift: float) -> tuple[float, float]:
        """Seconds of a draft pass, and of one more token in it."""
        if self._draft is None or self._read is None:
            draft_s = _FIRST_DRAFT * self._single.table(drift)[0][1]
            return draft_s, _FIRST_READ * draft_s
        return self._draft.seconds * drift, self._read.seconds * drift

    def _drift(self, step: float) -> None:
        """Follow what all costs have in common; forget them one by one when they are far off for long."""
        self._log_drift += step
        if abs(self._log_drift - self._table_drift) > _SAME_DRIFT:
            self._tables.clear()
        self._n_far_off = self._n_far_off + 1 if abs(self._log_drift) > _FAR_OFF else 0
        if self._n_far_off < _N_FAR_OFF:
            return
        factor = math.exp(self._log_drift)
        for widths in (self._single, *self._shared.values()):
            widths.forget(factor)
        for cost in (self._draft, self._read):
            if cost is not None:
                cost.seconds, cost.n = cost.seconds * factor, 0
        self._log_drift, self._n_far_off = 0.0, 0

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them. What several slots cost is learned anew each time."""
        return {
            "widths": self._single.to_json(),
            "drift": self._log_drift,
            "draft_s": 0.0 if self._draft is None else self._draft.seconds,
            "read_s": 0.0 if self._read is None else self._read.seconds,
            "fixed_s": self._fixed_s,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Profile:
        """The profile that `to_json` wrote.

        Raises
        ------
        InputError
            If the values are not such.
        """
        single = [values.get(name) for name in ("draft_s", "read_s", "fixed_s")]
        drift = values.get("drift")
        if not all(map(is_seconds, single)) or not is_finite(drift) or abs(drift) > _LARGEST_DRIFT:
            raise InputError(f"a profile needs seconds for draft_s, read_s and fixed_s, got {values!r}")
        made = cls()
        made._single = Widths.from_json(values.get("widths"))
        made._log_drift = float(drift)
        draft_s, read_s, made._fixed_s = (float(value) for value in single)  # type: ignore[arg-type]
        if draft_s > 0:
            made._draft, made._read = _Cost(draft_s, 1), _Cost(read_s or draft_s * _FIRST_READ, 1)
        return made


def bounded(surprise: float) -> float:
    """A surprise, no larger than an outlier may count."""
    return max(-_LARGEST_SURPRISE, min(_LARGEST_SURPRISE, surprise))


def is_seconds(value: object) -> bool:
    """Whether this is a number of seconds that something here may have taken, 0 or more."""
    return is_finite(value) and 0 <= value <= _LONGEST_S
