"""From answers to figures: paired ratios against plain decoding of the same run, medians and spread.

For answers with the same ids the ratio is plain's seconds over the contender's. Where texts differ, plain's
seconds per token stand for as many tokens as the contender gave; how many answers differ is said beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from leadout.bench.answer import Answer
from leadout.bench.record import Spread
from leadout.bench.runner import Run, Taken
from leadout.engine.events import Round
from leadout.engine.result import Outlook

Seconds = tuple[float, float]
"""What plain decoding would have taken, and what the contender took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one contender did in one workload.

    Parameters
    ----------
    speedup : Spread or None
        Plain seconds over the contender's for all tokens after the first, over units and repeats (a loop is
        one unit); None where there was nothing to compare.
    speedup_whole : Spread or None
        The same with the time to read the prompts.
    speedup_best_plain : Spread or None
        As `speedup`, against the fastest of several plain contenders in this workload.
    tokens_per_s : Spread or None
        After the first token.
    tokens_per_pass, acceptance : float or None
        Over all answers; None where the engine does not say.
    n_answers, n_same : int
        Answers, and those with the ids of plain decoding.
    draft_s, verify_s, other_s : float
        Seconds after the prompt's pass; 0 for other engines.
    reasons : dict of str to int
        How answers ended: with speculation on or off, and why.
    """

    speedup: Spread | None
    speedup_whole: Spread | None
    speedup_best_plain: Spread | None
    tokens_per_s: Spread | None
    tokens_per_pass: float | None
    acceptance: float | None
    n_answers: int
    n_same: int
    draft_s: float
    verify_s: float
    other_s: float
    reasons: dict[str, int]


def summarise(run: Run, plains: Sequence[str]) -> dict[str, dict[str, Figures]]:
    """Figures by workload and contender, in the order of the run.

    Parameters
    ----------
    run : Run
    plains : sequence of str, length >= 1
        Contenders that decode plainly with leadout; the first is what `speedup` is measured against.
    """
    grouped: dict[str, dict[str, list[Taken]]] = defaultdict(lambda: defaultdict(list))
    order = dict.fromkeys(plains)
    for each in run.answers:
        grouped[each.workload][each.contender].append(each)
        order.setdefault(each.contender)
    figures: dict[str, dict[str, Figures]] = {}
    for workload, by_contender in grouped.items():
        plain = _by_place(by_contender.get(plains[0], ()))
        best = None
        if len(plains) > 1:
            fastest = min((by_contender.get(name, []) for name in plains), key=_median_token_s)
            best = _by_place(fastest)
        figures[workload] = {
            name: _figures(by_contender[name], plain, best) for name in order if name in by_contender
        }
    return figures


def verify_ms_by_width(run: Run) -> dict[str, dict[int, Spread]]:
    """Milliseconds of verify passes by contender and width, the prompts' passes not counted."""
    seen: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for taken in run.answers:
        for each in taken.answer.rounds[1:]:
            seen[taken.contender][each.drafted + 1].append(1e3 * each.verify_s)
    return {
        name: {width: Spread.of(by_width[width]) for width in sorted(by_width)}
        for name, by_width in seen.items()
    }


def draft_ms_per_token(run: Run) -> dict[str, Spread]:
    """Milliseconds in the drafter per drafted token, by contender; rounds without a draft are not counted."""
    seen: dict[str, list[float]] = defaultdict(list)
    for taken in run.answers:
        for each in taken.answer.rounds[1:]:
            if each.drafted:
                seen[taken.contender].append(1e3 * each.draft_s / each.drafted)
    return {name: Spread.of(values) for name, values in seen.items()}


def calibration(run: Run) -> dict[str, dict[str, object]]:
    """How good each contender's predictions of acceptance were; only of those that predict."""
    rounds: dict[str, list[Round]] = defaultdict(list)
    for taken in run.answers:
        if any(each.forecast is not None for each in taken.answer.rounds):
            rounds[taken.contender] += taken.answer.rounds
    return {name: Outlook.of(each).calibration.to_json() for name, each in rounds.items()}


def total_speedup(run: Run, workload: str, contender: str, plain: str) -> float | None:
    """Plain seconds over the contender's for all answers of a workload together; None without a pair."""
    of = [each for each in run.answers if each.workload == workload]
    reference = _by_place(each for each in of if each.contender == plain)
    pairs = [
        pair
        for each in of
        if each.contender == contender and each.place in reference
        if (pair := _decoding(reference[each.place], each.answer)) is not None
    ]
    own_s = sum(own for _, own in pairs)
    return sum(plain_s for plain_s, _ in pairs) / own_s if own_s > 0 else None


def fixed_s(run: Run, plain: str) -> float:
    """Median seconds of a plain round beside the model's pass; 0 when there was none."""
    rounds = [each for taken in run.answers if taken.contender == plain for each in taken.answer.rounds[1:]]
    return Spread.of([each.other_s for each in rounds]).median if rounds else 0.0


def raw_answers(run: Run, plain: str) -> list[dict[str, object]]:
    """Every answer's figures, and where its ids leave plain decoding's."""
    reference = {each.place: each.answer for each in run.answers if each.contender == plain}
    return [
        {
            "workload": each.workload,
            "unit": each.unit,
            "call": each.call,
            "repeat": each.repeat,
            "contender": each.contender,
            "prompt_tokens": each.prompt_tokens,
            "same_as_plain": each.answer.ids == reference[each.place].ids,
            "differs_at": each.answer.agrees_until(reference[each.place]),
            **each.answer.to_json(),
        }
        for each in run.answers
        if each.place in reference
    ]


def _figures(
    taken: Sequence[Taken],
    plain: dict[tuple[str, str, int, int], Answer],
    best: dict[tuple[str, str, int, int], Answer] | None,
) -> Figures:
    answers = [each.answer for each in taken]
    rates = [1 / each.token_s for each in answers if each.token_s]
    reasons: dict[str, int] = defaultdict(int)
    for each in answers:
        if each.reason:
            reasons[each.reason] += 1
    rounds = [each for answer in answers for each in answer.rounds[1:]]
    return Figures(
        speedup=_spread(_ratios(taken, plain, _decoding)),
        speedup_whole=_spread(_ratios(taken, plain, _whole)),
        speedup_best_plain=None if best is None else _spread(_ratios(taken, best, _decoding)),
        tokens_per_s=_spread(rates),
        tokens_per_pass=_share((len(each.ids), each.passes) for each in answers),
        acceptance=_share((each.accepted, each.drafted) for each in answers),
        n_answers=len(answers),
        n_same=sum(each.place in plain and each.answer.ids == plain[each.place].ids for each in taken),
        draft_s=sum(each.draft_s for each in rounds),
        verify_s=sum(each.verify_s for each in rounds),
        other_s=sum(each.other_s for each in rounds),
        reasons=dict(reasons),
    )


def _decoding(plain: Answer, other: Answer) -> Seconds | None:
    if plain.token_s is None or other.token_s is None:
        return None
    return plain.token_s * other.decoded, other.decode_s


def _whole(plain: Answer, other: Answer) -> Seconds | None:
    seconds = _decoding(plain, other)
    if seconds is None:
        return None
    first_tokens_s = plain.first_s + (plain.token_s or 0.0) * (other.n_first - plain.n_first)
    return seconds[0] + first_tokens_s, seconds[1] + other.first_s


def _ratios(
    taken: Iterable[Taken],
    plain: dict[tuple[str, str, int, int], Answer],
    seconds: Callable[[Answer, Answer], Seconds | None],
) -> list[float]:
    """One ratio per unit and repeat; the calls of a loop are added up first."""
    sums: dict[tuple[str, int], list[float]] = {}
    for each in taken:
        pair = seconds(plain[each.place], each.answer) if each.place in plain else None
        if pair is not None:
            total = sums.setdefault((each.unit, each.repeat), [0.0, 0.0])
            total[0] += pair[0]
            total[1] += pair[1]
    return [plain_s / own_s for plain_s, own_s in sums.values() if own_s > 0]


def _by_place(taken: Iterable[Taken]) -> dict[tuple[str, str, int, int], Answer]:
    return {each.place: each.answer for each in taken}


def _median_token_s(taken: Iterable[Taken]) -> float:
    seconds = [each.answer.token_s for each in taken if each.answer.token_s]
    return Spread.of(seconds).median if seconds else float("inf")


def _spread(values: Sequence[float]) -> Spread | None:
    return Spread.of(values) if values else None


def _share(pairs: Iterable[tuple[int | None, int | None]]) -> float | None:
    """Sum of the first over sum of the second; None when one is unknown or there is nothing."""
    top, bottom = 0, 0
    for part, whole in pairs:
        if part is None or whole is None:
            return None
        top, bottom = top + part, bottom + whole
    return top / bottom if bottom else None
