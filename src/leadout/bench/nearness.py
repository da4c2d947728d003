"""How near a run's contenders came to the best fixed choice and to the oracle, workload by workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadout.bench import report
from leadout.bench.hindsight import AnswerFacts, look_back
from leadout.bench.runner import Run
from leadout.bench.specs import AUTO
from leadout.core.cost import CostTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """What a workload allowed, as multiples of plain decoding's speed.

    Parameters
    ----------
    oracle : float
        With the future known, by the run's costs.
    best_fixed : str
        The best choice that is kept for the whole workload.
    best : float
        Its speed, by the run's costs.
    fixed : dict of str to float
        The speed of every such choice.
    reached : float or None
        What `auto` measured, all answers together; None where it did not take part.
    by_costs : float or None
        Of the rounds that it made, with passes of the target by the run's costs: what it decided, apart from
        what the machine did meanwhile.
    share : float or None
        `by_costs` as a share of `best`.
    """

    oracle: float
    best_fixed: str
    best: float
    fixed: dict[str, float]
    reached: float | None
    by_costs: float | None
    share: float | None


def look_back_at(
    run: Run, facts: Mapping[str, Sequence[AnswerFacts]], costs: CostTable, plain: str
) -> dict[str, LookBack]:
    """One for each workload in which anything was decoded.

    Parameters
    ----------
    run : Run
    facts : mapping of workload to answers
    costs : CostTable
        Of the run's own provider.
    plain : str
        The contender that speeds are multiples of.
    """
    found = {}
    for workload, answers in facts.items():
        seen = look_back(answers, costs)
        if seen is None:
            continue
        by_costs = _by_costs(run, workload, costs)
        found[workload] = LookBack(
            oracle=seen.oracle,
            best_fixed=seen.best_fixed,
            best=seen.best,
            fixed=seen.fixed,
            reached=report.total_speedup(run, workload, AUTO, plain),
            by_costs=by_costs,
            share=None if by_costs is None else by_costs / seen.best,
        )
    return found


def _by_costs(run: Run, workload: str, costs: CostTable) -> float | None:
    answers = [each for each in run.answers if (each.workload, each.contender) == (workload, AUTO)]
    rounds = [each for taken in answers for each in taken.answer.rounds[1:]]
    plain_s = seconds = 0.0
    for each in rounds:
        then = costs.behind(each.n_held)
        plain_s += each.emitted * then.plain_s()
        seconds += then.verify_s(each.drafted + 1) + each.draft_s + each.other_s
    return plain_s / seconds if rounds else None
