"""What a round costs and what it is worth: seconds per width, and the best length of a draft.

Worth is measured in tokens gained over plain decoding. A round that brings t tokens more than a plain one and
takes s seconds longer is worth t - rate * s, where `rate` is the best rate in tokens per second that is being
reached: maximising this in every round maximises the rate of the whole (Dinkelbach, "On nonlinear fractional
programming", Management Science 13(7), 1967).
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from leadout.errors import InputError

UNKNOWN_SLOPE = 0.5
"""What one more token in a pass is taken to cost while only single tokens were measured, in single passes."""

_N_GRID = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """Seconds, as measured, with a certain number of slots at work.

    Parameters
    ----------
    widths : tuple of (int, float)
        Width and seconds of a target pass, ascending from width 1. Where several slots share the pass, the
        width is that of one of them, and the others bring a single token each. Costs need not grow with
        width.
    draft_s : float
        A slot's share of a draft model's pass, in which each slot has one token.
    read_s : float
        What each further token costs that the draft model reads in the same pass.
    fixed_s : float
        Everything else in a round.
    attention_s : float
        What each token of a pass costs more for each token that its slot holds; the seconds of `widths` are
        without that. 0 where it is not known, or is in them.

    Raises
    ------
    InputError
        If width 1 is missing, widths do not ascend, or a pass takes no time.
    """

    widths: tuple[tuple[int, float], ...]
    draft_s: float = 0.0
    read_s: float = 0.0
    fixed_s: float = 0.0
    attention_s: float = 0.0
    _seconds: dict[int, float] = field(init=False, repr=False, compare=False)
    _extra: dict[int, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_ascending = all(a[0] < b[0] for a, b in itertools.pairwise(self.widths))
        if not self.widths or self.widths[0][0] != 1 or not is_ascending:
            raise InputError(f"a cost table needs ascending widths from 1 on, got {self.widths!r}")
        if not all(seconds > 0 for _, seconds in self.widths):
            raise InputError(f"a cost table needs seconds above 0, got {self.widths!r}")
        object.__setattr__(self, "_seconds", dict(self.widths))
        object.__setattr__(self, "_extra", {})  # filled as it is asked for, which is often

    def behind(self, n_held: int, n_active: int = 1) -> CostTable:
        """The costs where each of so many slots at work holds `n_held` tokens."""
        each_s = self.attention_s * n_held
        widths = tuple((width, seconds + each_s * (width + n_active - 1)) for width, seconds in self.widths)
        return replace(self, widths=widths, attention_s=0.0)

    def verify_s(self, width: int) -> float:
        """Seconds of a target pass: measured, or on the line between measured neighbours.

        Beyond the widest one the last two measured widths set the slope, but cost never falls there.
        """
        seconds = self._seconds.get(width)
        if seconds is None:
            seconds = self._seconds[width] = self._between(width)
        return seconds

    def _between(self, width: int) -> float:
        at = bisect_left(self.widths, (width, 0.0))
        if at < len(self.widths):
            (w0, s0), (w1, s1) = self.widths[at - 1], self.widths[at]
            return s0 + (s1 - s0) * (width - w0) / (w1 - w0)
        last, seconds = self.widths[-1]
        if at == 1:
            return seconds * (1 + UNKNOWN_SLOPE * (width - last))
        before, earlier = self.widths[-2]
        return seconds + max(0.0, (seconds - earlier) / (last - before)) * (width - last)

    def extra_s(self, k: int) -> float:
        """Seconds that k drafted tokens add to a pass."""
        seconds = self._extra.get(k)
        if seconds is None:
            seconds = self._extra[k] = self.verify_s(1 + k) - self.verify_s(1)
        return seconds

    def drafting_s(self, n_passes: int, n_unread: int = 1) -> float:
        """Seconds of that many draft passes, the first of which reads `n_unread` tokens."""
        return n_passes * self.draft_s + max(0, n_unread - 1) * self.read_s if n_passes else 0.0

    def plain_s(self) -> float:
        """Seconds of a plain round."""
        return self.fixed_s + self.verify_s(1)


def best_prefix(
    chances: Sequence[float], costs: CostTable, rate: float, *, ks: Sequence[int]
) -> tuple[int, float]:
    """The best number of tokens to verify of a proposal that is made already.

    Parameters
    ----------
    chances : sequence of float, length n
        Chance of each token to stand when all before it did.
    costs : CostTable
    rate : float
        Tokens per second that a round has to match.
    ks : sequence of int
        Allowed lengths, ascending from 0; those beyond n are left out.

    Returns
    -------
    k : int
    worth : float
        Tokens gained over plain decoding; 0 for k = 0. The shortest of equals.
    """
    best, worth = 0, 0.0
    expected, chance, n = 0.0, 1.0, 0
    for k in ks:
        if k > len(chances):
            break
        while n < k:
            chance *= chances[n]
            expected += chance
            n += 1
        value = expected - rate * costs.extra_s(k)
        if k and value > worth:
            best, worth = k, value
    return best, worth


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DraftPolicy:
    """When a draft model goes on, by backward induction: see `draft_policy`.

    Parameters
    ----------
    stop : float64 array, shape (K+1,)
        Worth of verifying i tokens, their acceptance aside; -inf where i is not allowed.
    draft : float64 array, shape (K+1, G)
        Worth to come of one more pass after i tokens, on a grid of the chance that all i stand.
    best : float64 array, shape (K+1, G)
        The larger of the two.
    typical : tuple of float
        The mean chance of each token, also of those beyond the longest draft.
    """

    stop: NDArray[np.float64]
    draft: NDArray[np.float64]
    best: NDArray[np.float64]
    typical: tuple[float, ...]

    @property
    def worth(self) -> float:
        """Of the first pass; negative when plain decoding is better."""
        return float(self.draft[0, -1])

    def gain(self, n: int, chance: float) -> float:
        """What one more pass after n drafted tokens that stand with this chance is worth; -inf where none is
        allowed to follow.
        """
        is_allowed = n + 1 < len(self.stop) and math.isfinite(self.stop[n])
        return _at(self.draft[n], chance) - float(self.stop[n]) if is_allowed else -math.inf

    def takes(self, n: int, chance: float) -> bool:
        """Whether the token after n drafted ones is worth verifying; `chance` is that all n + 1 stand."""
        if n + 1 >= len(self.stop):
            return False
        return chance + _at(self.best[n + 1], chance) > float(self.stop[n])

    def goes_on(self, n: int, chance: float) -> bool:
        """Whether to look at one more row after n drafted tokens that stand with this chance."""
        return n + 1 < len(self.stop) and _at(self.draft[n], chance) > float(self.stop[n])


def draft_policy(
    chances: NDArray[np.float64], costs: CostTable, rate: float, *, ks: Sequence[int]
) -> DraftPolicy:
    """The best rule for a draft model that is asked row by row.

    After each row it may end the draft before that token, or take the token; after each token it may verify,
    or pay one more pass. Rows to come have one of the chances given for their place, all equally likely. A
    draft may end only at an allowed length, so costs that rise and fall with width are seen through.

    Parameters
    ----------
    chances : float64 array, shape (K or more, Q)
        Possible chances of token i, given that all before it stand.
    costs : CostTable
    rate : float
        Tokens per second that a round has to match.
    ks : sequence of int
        Allowed lengths, ascending from 0 to K or less.
    """
    n = ks[-1]
    stop = np.full(n + 1, -np.inf)
    for k in ks:
        stop[k] = -rate * costs.extra_s(k) if k else 0.0
    grid = np.linspace(0.0, 1.0, _N_GRID)
    draft = np.full((n + 1, _N_GRID), -np.inf)
    best = np.empty((n + 1, _N_GRID))
    best[n] = stop[n]
    for i in range(n - 1, -1, -1):
        together = np.outer(grid, chances[i])  # (G, Q)
        taken = together + np.interp(together, grid, best[i + 1])
        draft[i] = np.maximum(taken, stop[i]).mean(axis=1) - rate * costs.draft_s
        best[i] = np.maximum(draft[i], stop[i])
    typical = tuple(chances.mean(axis=1).tolist())
    return DraftPolicy(stop=stop, draft=draft, best=best, typical=typical)


def _at(row: NDArray[np.float64], chance: float) -> float:
    """The value of a grid row, shape (G,), at a chance in 0..1."""
    place = min(max(chance, 0.0), 1.0) * (_N_GRID - 1)
    low = min(int(place), _N_GRID - 2)
    first, second = float(row[low]), float(row[low + 1])
    return first + (second - first) * (place - low)


def attention_between(short: CostTable, long: CostTable, n_more: int) -> float:
    """Seconds of attention by what passes took behind two contexts, `n_more` tokens apart.

    Of each token of a pass, for each that is held: by least squares over the widths of the longer one.
    """
    pairs = [(width * n_more, seconds - short.verify_s(width)) for width, seconds in long.widths]
    return max(0.0, sum(n * more_s for n, more_s in pairs) / max(1, sum(n * n for n, _ in pairs)))


def speed_of(k: int, acceptance: float, costs: CostTable) -> float:
    """Tokens per second of rounds that draft k tokens with a model, each of which stands with this chance.

    Leviathan et al., arXiv 2211.17192, section 3.4, with measured costs in place of a cost ratio.
    """
    tokens = sum(acceptance**i for i in range(k + 1))
    return tokens / (costs.plain_s() + costs.extra_s(k) + costs.drafting_s(k, 2 if k else 1))
