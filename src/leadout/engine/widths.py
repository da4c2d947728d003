"""Seconds of one thing or another on this machine, learned one by one, and what they have in common.

Knows nothing of rounds and of what is drafted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from leadout.checks import is_finite, whole
from leadout.core.cost import UNKNOWN_SLOPE, CostTable
from leadout.errors import InputError

STALE_PASSES = 400
"""Passes after which a width that none of them had counts as no dearer than its neighbours suggest."""

_SLOWEST_LEARNING = 0.05
_DRIFT_LEARNING = 0.1
_WIDE_DRIFT_LEARNING = 0.03  # less, as every width has a cost of its own that learns as well
_SHARED_DRIFT = 0.5  # how much of what single passes drift by is passed on to wider ones, unseen
_LARGEST_SURPRISE = 0.5  # in natural logarithms of seconds; an outlier counts as no more
SHORTEST_S = 1e-9
"""Nothing that was measured is shorter."""

_LARGEST_DRIFT, _LONGEST_S = 20.0, 1e9  # nor beyond these
_FIRST_WEIGHT, _WEIGHT_KEEP = 1e8, 0.95  # as much as a pass of 10 tokens behind 1,000
_N_UNSURE = 3  # samples after which surprises are bounded
_STEEPEST = 1.5  # a pass of w tokens that took longer than this many times w single ones was disturbed


@dataclass(slots=True)
class Cost:
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
        self._costs = {width: Cost(seconds, _N_UNSURE) for width, seconds in known}
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
            self._costs[width] = Cost(seconds, 1, self.n_passes)
            return None
        surprise, is_sure = math.log(seconds / cost.seconds), cost.n >= _N_UNSURE
        cost.seen_at = self.n_passes
        if width > 1 or not is_sure:  # single passes are what the drift is measured by
            cost.learn(surprise)
        return surprise if is_sure else None

    def table(self, drift: Drift) -> tuple[tuple[int, float], ...]:
        """Width and seconds, ascending; no pass is cheaper than a single one."""
        widths = [width for width in sorted(self._costs) if self._is_plausible(width)]
        fresh = [width for width in widths if not self._is_stale(width)]
        seconds = {width: self._costs[width].seconds for width in widths}
        if len(fresh) < len(widths):
            known = CostTable(widths=tuple((width, seconds[width]) for width in fresh))
            for width in widths:
                if self._is_stale(width):
                    line = seconds[1] * (1 + UNKNOWN_SLOPE * (width - 1))
                    seconds[width] = min(seconds[width], known.verify_s(width), line)
        least = 0.0 if 1 not in seconds else seconds[1] * drift.factor(1)
        return tuple((width, max(least, each * drift.factor(width))) for width, each in seconds.items())

    def forget(self, drift: Drift) -> None:
        """All costs are off by this much, and are to be learned anew."""
        for width, cost in self._costs.items():
            cost.seconds, cost.n = cost.seconds * drift.factor(width), 0

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
            if (number := whole(width)) is None or number < 1:
                raise InputError(f"a profile needs widths that are whole numbers, got {width!r}")
            made._costs[number] = Cost(max(SHORTEST_S, float(pair[0])), _N_UNSURE, -int(pair[1]))
        return made

    def _is_stale(self, width: int) -> bool:
        return width > 1 and self.n_passes - self._costs[width].seen_at > STALE_PASSES

    def _is_plausible(self, width: int) -> bool:
        """Whether what is known of this width can be its cost, and not a busy moment of the machine."""
        single = self._costs.get(1)
        return single is None or self._costs[width].seconds <= _STEEPEST * width * single.seconds


@dataclass(slots=True)
class Drift:
    """What has changed for all costs since they were measured, in natural logarithms of seconds.

    Single passes wait for memory, wider ones for arithmetic as well: where memory gets slower, only the
    former do. So each kind is followed by itself. What single passes drift by is passed on in part, for
    widths that are not tried at present: were all of it, a slow moment would make drafting look dear and end
    it just where it gains most.
    """

    single: float = 0.0
    wide: float = 0.0

    def factor(self, width: int) -> float:
        """What costs of passes of this width are multiplied by."""
        return math.exp(self.single if width == 1 else self.wide)

    def learn(self, width: int, surprise: float) -> None:
        """A pass was expected to take another time; `surprise` is log(seen / expected)."""
        surprise = bounded(surprise)
        if width == 1:
            self.single += _DRIFT_LEARNING * surprise
            self.wide += _SHARED_DRIFT * _DRIFT_LEARNING * surprise
        else:
            self.wide += _WIDE_DRIFT_LEARNING * surprise

    def is_near(self, other: Drift, distance: float) -> bool:
        """Whether both kinds are within that distance."""
        return max(abs(self.single - other.single), abs(self.wide - other.wide)) <= distance


@dataclass(slots=True)
class Attention:
    """What each token of a pass costs more for each token that its slot holds.

    A line through what passes behind long contexts took beyond what they would behind short ones, by least
    squares; what is older counts for less.

    Parameters
    ----------
    slope_s : float
    weight : float
        Of all that was seen: the sum of `n_pairs` squared.
    """

    slope_s: float = 0.0
    weight: float = _FIRST_WEIGHT

    def learn(self, n_pairs: int, bare_s: float, seconds: float) -> None:
        """A pass took `seconds`, and behind nothing `bare_s`; `n_pairs`: its tokens times those held."""
        expected_s = bare_s + self.slope_s * n_pairs
        off_s = expected_s * math.expm1(bounded(math.log(seconds / expected_s)))
        self.weight = _WEIGHT_KEEP * self.weight + n_pairs**2
        self.slope_s = max(0.0, self.slope_s + off_s * n_pairs / self.weight)


def bounded(surprise: float) -> float:
    """A surprise, no larger than an outlier may count."""
    return max(-_LARGEST_SURPRISE, min(_LARGEST_SURPRISE, surprise))


def is_drift(value: object) -> bool:
    """Whether this is the logarithm of a factor by which a machine may have become slower or faster."""
    return is_finite(value) and abs(value) <= _LARGEST_DRIFT


def is_seconds(value: object) -> bool:
    """Whether this is a finite number of seconds, 0 or more."""
    return is_finite(value) and 0 <= value <= _LONGEST_S
