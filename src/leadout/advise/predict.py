"""From replayed answers to speedups with intervals: for each kind of work, and over all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from leadout.advise.record import DraftRecord, Guess, TargetRecord, agreement
from leadout.advise.replay import Replayed, replay, with_draft
from leadout.advise.samples import KINDS, Kind
from leadout.core.slowdown import DISTURBED
from leadout.engine.memory import Memory
from leadout.engine.pace import PacedSchedule
from leadout.engine.startup import Agreement, Startup
from leadout.errors import InputError
from leadout.models.recalled import recalled

_N_PASSES = 2  # over all answers; the last counts, when the schedule knows the drafter as it soon would
_Z = 1.645  # 90 % lie within, of a normal law
_N_AGREEMENTS = 16
_PRIOR_DF = 3.0  # how much the spread of all kinds counts beside a kind's own
_SMALLEST_SD = 0.02  # of one sample's logarithm: costs are not known better than that


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """A speedup over plain decoding, and where it lies nine times in ten."""

    speedup: float
    low: float
    high: float

    def __str__(self) -> str:
        """Such as "1.32x (1.25-1.40)"."""
        return f"{self.speedup:.2f}x ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPrediction:
    """What is predicted for one kind of work.

    Parameters
    ----------
    kind : Kind
    speedup : Speedup
        With the draft model, where there is one, and lookups beside it.
    lookups : Speedup
        With lookups alone.
    agreement : float or None
        Share of the draft's guesses that were the target's tokens.
    n_tokens : int
        Of the answers looked at.
    """

    kind: Kind
    speedup: Speedup
    lookups: Speedup
    agreement: float | None
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted of a pair, or of a target with lookups alone.

    Parameters
    ----------
    kinds : tuple of KindPrediction
    speedup, lookups : Speedup
        Geometric means over the kinds.
    agreement : float or None
    target_s : float
        A plain round.
    draft_s : float
        A drafted token; 0 without a draft model.
    draft : str
        The draft model and, over a bridge, the way; "" without one.
    slowdown : float >= 1
        Of the target's passes when they were measured, by whatever else this machine did.
    """

    kinds: tuple[KindPrediction, ...]
    speedup: Speedup
    lookups: Speedup
    agreement: float | None
    target_s: float
    draft_s: float
    draft: str = ""
    slowdown: float = 1.0

    @property
    def is_disturbed(self) -> bool:
        """Whether the machine was too busy for any of this to be believed."""
        return self.slowdown >= DISTURBED

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Prediction | None:
        """The prediction that `to_json` wrote; None where these are not such."""
        return recalled(cls, values)


def predict(
    record: TargetRecord,
    draft: DraftRecord | None,
    *,
    draft_name: str = "draft",
    widths: frozenset[int] | None = None,
) -> Prediction:
    """Replay all answers with lookups alone, and with the draft model beside them.

    Parameters
    ----------
    draft : DraftRecord or None
        None predicts for lookups alone.
    widths : frozenset of int or None
        The only widths a verify pass may have (exact mode).

    Raises
    ------
    InputError
        If no answer is long enough to tell anything.
    """
    if not record.answers:
        raise InputError(
            "the target answered none of the samples with more than one token; nothing to predict from"
        )
    alone = _replays(record, None, draft_name, widths)
    paired = alone if draft is None else _replays(record, draft, draft_name, widths)
    by_kind = {
        kind: [i for i, each in enumerate(record.answers) if each.sample.kind == kind] for kind in KINDS
    }
    present = {kind: at for kind, at in by_kind.items() if at}
    speedups = _speedups([[paired[i] for i in at] for at in present.values()])
    lookups = _speedups([[alone[i] for i in at] for at in present.values()])
    kinds = tuple(
        KindPrediction(
            kind=kind,
            speedup=speedups[n],
            lookups=lookups[n],
            agreement=None if draft is None else agreement(_guesses(draft, at)),
            n_tokens=sum(len(record.answers[i].answer) for i in at),
        )
        for n, (kind, at) in enumerate(present.items())
    )
    return Prediction(
        kinds=kinds,
        speedup=_mean(speedups),
        lookups=_mean(lookups),
        agreement=None if draft is None else draft.agreement,
        target_s=record.costs.plain_s(),
        draft_s=0.0 if draft is None else draft.draft_s,
        draft="" if draft is None else draft_name,
        slowdown=record.slowdown,
    )


def _replays(
    record: TargetRecord, draft: DraftRecord | None, draft_name: str, widths: frozenset[int] | None
) -> list[Replayed]:
    costs = record.costs if draft is None else with_draft(record.costs, draft.draft_s, draft.read_s)
    startup = Startup(costs=costs, agreements=_first_agreements(draft), seconds=0.0)
    schedule = PacedSchedule(Memory.of_startup(startup, draft_name))
    guesses = [None] * len(record.answers) if draft is None else draft.guesses
    done: list[Replayed] = []
    for _ in range(_N_PASSES):
        done = [
            replay(schedule, answered, costs, guess, draft_name=draft_name, widths=widths)
            for answered, guess in zip(record.answers, guesses, strict=True)
        ]
    return done


def _first_agreements(draft: DraftRecord | None) -> tuple[Agreement, ...]:
    """As many as the first measurement of a pair shows its schedule, from all over the answers."""
    if draft is None:
        return ()
    guesses = [guess for each in draft.guesses for guess in each[1:]]
    chosen = guesses[:: max(1, len(guesses) // _N_AGREEMENTS)][:_N_AGREEMENTS]
    return tuple(Agreement(confidence=each.confidence, stood=each.stood) for each in chosen)


def _guesses(draft: DraftRecord, at: Sequence[int]) -> list[Guess]:
    return [guess for i in at for guess in draft.guesses[i][1:]]


def _speedups(groups: Sequence[Sequence[Replayed]]) -> list[Speedup]:
    """Of each group the geometric mean, with an interval from its own spread and that of all groups."""
    logs = [[math.log(each.speedup) for each in group] for group in groups]
    squares = [sum((x - sum(group) / len(group)) ** 2 for x in group) for group in logs]
    free = [len(group) - 1 for group in logs]
    pooled = sum(squares) / sum(free) if sum(free) else _SMALLEST_SD**2
    found = []
    for group, own, n_free in zip(logs, squares, free, strict=True):
        variance = (_PRIOR_DF * pooled + own) / (_PRIOR_DF + n_free)
        sd = math.sqrt(max(variance, _SMALLEST_SD**2) / len(group))
        found.append(_around(sum(group) / len(group), sd * _quantile(_PRIOR_DF + n_free)))
    return found


def _mean(speedups: Sequence[Speedup]) -> Speedup:
    """Over kinds; their errors are taken to be independent."""
    n = len(speedups)
    middle = sum(math.log(each.speedup) for each in speedups) / n
    width = math.sqrt(sum(math.log(each.high / each.speedup) ** 2 for each in speedups)) / n
    return _around(middle, width)


def _around(middle: float, width: float) -> Speedup:
    return Speedup(speedup=math.exp(middle), low=math.exp(middle - width), high=math.exp(middle + width))


def _quantile(n_free: float) -> float:
    """Of Student's law: the normal one's with its first correction (Fisher and Cornish, 1960)."""
    return _Z * (1 + (_Z**2 + 1) / (4 * n_free))
