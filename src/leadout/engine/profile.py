"""What passes cost on this machine: measured at the start within a budget, refined by every round.

Knows nothing of requests or of time itself: seconds come in, a `CostTable` goes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from leadout.core.cost import CostTable
from leadout.errors import InputError

WIDEST = 64

_FIRST_DRAFT = 0.3  # a draft pass, in single target passes, until one was seen
_FIRST_READ = 0.4  # one more token that is read in a draft pass, in draft passes
_SLOWEST_LEARNING = 0.05
_DRIFT_LEARNING = 0.1
_LARGEST_SURPRISE = 0.5  # in natural logarithms of seconds; an outlier counts as no more
_N_UNSURE = 3  # samples after which surprises are bounded
_FAR_OFF = math.log(2)
_N_FAR_OFF = 100
_STEEPEST = 1.5  # a pass of w tokens that took longer than this many times w single ones was disturbed


@dataclass(slots=True)
class _Cost:
    """Seconds of one thing, without the drift that all share, and how often it was seen."""

    seconds: float
    n: int = 0

    def learn(self, surprise: float) -> None:
        """Move towards what was seen; `surprise` is log(seen / expected)."""
        self.n += 1
        if self.n > _N_UNSURE:
            surprise = max(-_LARGEST_SURPRISE, min(_LARGEST_SURPRISE, surprise))
        self.seconds *= math.exp(max(_SLOWEST_LEARNING, 1 / self.n) * surprise)


class Profile:
    """Costs of a pair of models, robust against outliers, scaled by one drift that follows context and load.

    Parameters
    ----------
    costs : CostTable or None
        What was measured; None learns from the first rounds.
    """

    def __init__(self, costs: CostTable | None = None) -> None:
        self._widths: dict[int, _Cost] = {}
        self._draft: _Cost | None = None
        self._read: _Cost | None = None
        self._fixed_s = 0.0
        self._log_drift, self._n_far_off = 0.0, 0
        self._costs: CostTable | None = None
        if costs is not None:
            self._widths = {width: _Cost(seconds, _N_UNSURE) for width, seconds in costs.widths}
            self._fixed_s = costs.fixed_s
            if costs.draft_s > 0:
                self._draft = _Cost(costs.draft_s, 1)
                self._read = _Cost(costs.read_s or costs.draft_s * _FIRST_READ, 1)

    @property
    def is_known(self) -> bool:
        """True once a single-token pass was measured; before that there is nothing to compare with."""
        return 1 in self._widths

    @property
    def costs(self) -> CostTable:
        """The costs as they are now.

        Raises
        ------
        InputError
            If `is_known` is false.
        """
        if self._costs is None:
            drift = math.exp(self._log_drift)
            widths = tuple(
                (width, cost.seconds * drift)
                for width, cost in sorted(self._widths.items())
                if self._is_plausible(width)
            )
            single = self._widths[1].seconds if 1 in self._widths else 0.0
            draft = _FIRST_DRAFT * single if self._draft is None else self._draft.seconds
            read = _FIRST_READ * draft if self._read is None else self._read.seconds
            self._costs = CostTable(
                widths=widths, draft_s=draft * drift, read_s=read * drift, fixed_s=self._fixed_s
            )
        return self._costs

    def saw_verify(self, width: int, seconds: float) -> None:
        """A target pass of `width` tokens took this long."""
        if not (1 <= width <= WIDEST and seconds > 0):
            return
        self._costs = None
        cost = self._widths.get(width)
        if cost is None or not self._is_plausible(width):
            self._widths[width] = _Cost(seconds / math.exp(self._log_drift), 1)
            return
        surprise = math.log(seconds / cost.seconds) - self._log_drift
        is_sure = cost.n >= _N_UNSURE
        cost.learn(surprise)
        if is_sure:
            self._drift(max(-_LARGEST_SURPRISE, min(_LARGEST_SURPRISE, surprise)))

    def _is_plausible(self, width: int) -> bool:
        """Whether what is known of this width can be its cost, and not a busy moment of the machine."""
        single = self._widths.get(1)
        return single is None or self._widths[width].seconds <= _STEEPEST * width * single.seconds

    def saw_draft(self, n_passes: int, n_unread: int, seconds: float) -> None:
        """So many draft passes, the first of which read `n_unread` tokens, took this long."""
        if n_passes < 1 or seconds <= 0:
            return
        n_read = max(0, n_unread - 1)
        drift = math.exp(self._log_drift)
        if self._draft is None or self._read is None:
            each = seconds / drift / (n_passes + _FIRST_READ * n_read)
            self._draft, self._read = _Cost(each, 1), _Cost(each * _FIRST_READ)
        else:
            drafting, reading = n_passes * self._draft.seconds, n_read * self._read.seconds
            surprise = math.log(seconds / drift / (drafting + reading))
            (self._draft if drafting >= reading else self._read).learn(surprise)
        self._costs = None

    def saw_other(self, seconds: float) -> None:
        """The rest of a round took this long."""
        bounded = min(seconds, 4 * self._fixed_s) if self._fixed_s else seconds
        self._fixed_s += _DRIFT_LEARNING * (bounded - self._fixed_s)
        self._costs = None

    def _drift(self, surprise: float) -> None:
        """Follow what all costs have in common; forget them one by one when they are far off for long."""
        self._log_drift += _DRIFT_LEARNING * surprise
        self._n_far_off = self._n_far_off + 1 if abs(self._log_drift) > _FAR_OFF else 0
        if self._n_far_off < _N_FAR_OFF:
            return
        for cost in (*self._widths.values(), self._draft, self._read):
            if cost is not None:
                cost.seconds, cost.n = cost.seconds * math.exp(self._log_drift), 0
        self._log_drift, self._n_far_off = 0.0, 0

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them."""
        costs = self.costs
        return {
            "widths": {str(width): seconds for width, seconds in costs.widths},
            "draft_s": costs.draft_s if self._draft is not None else 0.0,
            "read_s": costs.read_s if self._read is not None else 0.0,
            "fixed_s": costs.fixed_s,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Profile:
        """The profile that `to_json` wrote.

        Raises
        ------
        InputError
            If the values are not such.
        """
        widths, single = values.get("widths"), [values.get(name) for name in ("draft_s", "read_s", "fixed_s")]
        if not isinstance(widths, dict) or not all(map(_is_seconds, (*widths.values(), *single))):
            raise InputError(
                f"a profile needs seconds for widths, draft_s, read_s and fixed_s, got {values!r}"
            )
        try:
            table = tuple(sorted((int(width), float(seconds)) for width, seconds in widths.items()))
        except ValueError as error:
            raise InputError(
                f"a profile needs widths that are whole numbers, got {list(widths)!r}"
            ) from error
        draft_s, read_s, fixed_s = (float(value) for value in single)  # type: ignore[arg-type]
        return cls(CostTable(widths=table, draft_s=draft_s, read_s=read_s, fixed_s=fixed_s))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
