"""The first measurement: what passes cost, and how often the draft agrees, from a few passes over a sample.

Both models read the same short text; the passes are timed, and the rows of the widest one show where the
draft's best guess is the target's. Neither cache keeps anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadout.core import law
from leadout.core.cost import CostTable
from leadout.models.base import Chunk, Model

BUDGET_S = 2.0
SAMPLE = """```python
def total(prices, tax):
    result = 0
    for price in prices:
        result += price * (1 + tax)
    return result
```
This function takes a list of prices and a tax rate, and returns the total of all prices with the tax.
"""
"""Such as models say, not people: drafts agree with targets on their own words far more often."""

_ORDER = (2, 4, 8, 3, 16, 6, 5, 12)
_N_ROWS = 16  # of the draft
_N_TIMES = 3
_PIECE = 512  # of a text that is read
_BEFORE = 28  # tokens read before anything is timed or compared: half of what follows is code, half is prose
_FEWEST_BEFORE = 4
_READ_SHARE = 0.5  # of a single pass, for each of several tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A place of the sample: how sure the draft was of its best guess, and whether it was the target's."""

    confidence: float
    stood: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """What the first measurement found.

    Parameters
    ----------
    costs : CostTable
    agreements : tuple of Agreement
    seconds : float
        How long it took.
    """

    costs: CostTable
    agreements: tuple[Agreement, ...]
    seconds: float


def measure(
    target: Model,
    draft: Model | None,
    *,
    clock: Callable[[], float],
    budget_s: float = BUDGET_S,
    is_one_vocabulary: bool = True,
) -> Startup:
    """Time passes of single and several tokens until the budget is spent.

    A pass that would exceed the budget is not begun, except for the first passes of a single token.

    Parameters
    ----------
    target, draft : Model
        Slot 0 of both must be free; it is empty afterwards.
    clock : callable
        Seconds that only grow.
    budget_s : float
    is_one_vocabulary : bool
        False where an id means something else to the draft: then its rows are timed, and not compared.
    """
    started = clock()
    text = target.vocab.encode(SAMPLE, add_bos=target.vocab.adds_bos, special=False)
    before = _n_before(TimedPasses(target, text, 0, clock).fastest(1, 1), budget_s)
    text = text[: min(target.info.n_ctx, before + max(_ORDER))]
    targets = TimedPasses(target, text, before, clock)
    seconds = {1: targets.fastest(1, _N_TIMES)}
    draft_s = read_s = 0.0
    guesses = np.empty((0, 1), dtype=np.float32)
    if draft is not None:
        known = text[: draft.info.n_ctx]
        known = [min(token, draft.info.n_vocab - 1) for token in known]
        TimedPasses(draft, known, 0, clock).fastest(1, 1)  # warms up
        drafts = TimedPasses(draft, known, before, clock)
        draft_s = drafts.fastest(1, _N_TIMES)
        read_s = drafts.read_s(draft_s)
        if is_one_vocabulary:
            drafts.fastest(min(_N_ROWS, drafts.n_left), 1)
            guesses = drafts.rows
        drafts.close()
    # each width once, then again as long as there is time: the faster one was disturbed less
    for width in _ORDER * _N_TIMES:
        table = CostTable(widths=tuple(sorted(seconds.items())))
        if width <= targets.n_left and clock() - started + table.verify_s(width) <= budget_s:
            seconds[width] = min(targets.fastest(width, 1), seconds.get(width, math.inf))
    targets.close()
    return Startup(
        costs=CostTable(widths=tuple(sorted(seconds.items())), draft_s=draft_s, read_s=read_s),
        agreements=agreements(targets.rows, guesses),
        seconds=clock() - started,
    )


def _n_before(single_s: float, budget_s: float) -> int:
    """Tokens to read first, by what a single pass takes: together about a quarter of the time at most."""
    return max(_FEWEST_BEFORE, min(_BEFORE, int(budget_s / 4 / (_READ_SHARE * single_s))))


class TimedPasses:
    """Passes over the same place of a text, each timed; `rows` are the widest one's logits, (width, V).

    Parameters
    ----------
    model : Model
        Its slot 0 is emptied, and reads the text up to that place.
    text : sequence of int, length >= 1
    before : int
        Where the place is; at the last token of a shorter text.
    clock : callable
        Seconds that only grow.
    """

    def __init__(self, model: Model, text: Sequence[int], before: int, clock: Callable[[], float]) -> None:
        self._model, self._clock = model, clock
        before = min(before, len(text) - 1)
        self._rest = text[before:]
        self._before = before
        self.rows = np.empty((0, 1), dtype=np.float32)
        model.truncate(0, 0)
        started = clock()
        for at in range(0, before, _PIECE):
            model.forward([Chunk(slot=0, tokens=text[at : min(at + _PIECE, before)], n_logits=0)])
        self._reading_s = clock() - started

    @property
    def n_left(self) -> int:
        """The widest pass that the text allows."""
        return len(self._rest)

    def read_s(self, single_s: float) -> float:
        """Seconds of each further token that was read on the way to that place, given those of a single one.

        Without their rows, which are dear to a small model. 0 where there was but one.
        """
        return max(0.0, self._reading_s - single_s) / max(1, self._before - 1)

    def fastest(self, width: int, n_times: int) -> float:
        """Seconds of the fastest of so many passes."""
        return min(self.times(width, n_times))

    def times(self, width: int, n_times: int) -> list[float]:
        """Seconds of so many passes."""
        return [self._run(width) for _ in range(n_times)]

    def _run(self, width: int) -> float:
        started = self._clock()
        logits = self._model.forward([Chunk(slot=0, tokens=self._rest[:width], n_logits=width)])[0]
        seconds = self._clock() - started
        if width > len(self.rows):
            self.rows = np.array(logits)
        self._model.truncate(0, self._before)
        return max(seconds, 1e-9)

    def close(self) -> None:
        """Leave the slot empty."""
        self._model.truncate(0, 0)


def agreements(said: NDArray[np.float32], guesses: NDArray[np.float32]) -> tuple[Agreement, ...]:
    """Where a draft's rows, shape (n, V'), have the same best token as the target's, shape (n, V)."""
    return tuple(
        Agreement(confidence=law.top_probability(guess), stood=int(np.argmax(guess)) == int(np.argmax(row)))
        for row, guess in zip(said, guesses, strict=False)
    )
