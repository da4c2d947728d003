"""Acceptance predicted for kinds of text that nothing was learned from: scores against the running mean.

For each workload a predictor learns from all the others, and is then judged on this one: once as it is, and
once going on to learn as it does in use. Rounds are replayed from recorded facts at a fixed length, so the
score does not depend on what a schedule chose to draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leadout.bench.hindsight import AnswerFacts
from leadout.core.estimate import KEEP, AcceptanceModel, Calibration

DRAFT_K, LOOKUP_K = 4, 8
DRAFT = "draft"
KEEP_LONG = 0.9995  # what lasts is forgotten as slowly as a paced schedule does


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A drafted token before its verdict, and the verdict; all drafted before it in its round stood."""

    drafter: str
    confidence: float
    offset: int
    position: int
    stood: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Scores over workloads that were held out, each in turn.

    Parameters
    ----------
    frozen : Calibration
        Of predictors that learned from the other workloads alone.
    learning : Calibration
        Of the same, learning on from verdict to verdict.
    by_workload, by_drafter : dict of str to Calibration
        Parts of `learning`.
    """

    frozen: Calibration = field(default_factory=Calibration)
    learning: Calibration = field(default_factory=Calibration)
    by_workload: dict[str, Calibration] = field(default_factory=dict)
    by_drafter: dict[str, Calibration] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Plain values; "gain" is the share of the running mean's Brier score that was saved."""
        return {
            "frozen": scored(self.frozen),
            "learning": scored(self.learning),
            "by_workload": {name: scored(each) for name, each in self.by_workload.items()},
            "by_drafter": {name: scored(each) for name, each in self.by_drafter.items()},
        }


def scored(calibration: Calibration) -> dict[str, object]:
    """A calibration as plain values, with its gain over the running mean."""
    brier, of_mean = calibration.brier, calibration.brier_of_mean
    gain = 1 - brier / of_mean if brier is not None and of_mean else None
    return {"gain": gain, **calibration.to_json()}


def judge_held_out(facts: Mapping[str, Sequence[AnswerFacts]]) -> HeldOut:
    """Hold each workload out in turn.

    Parameters
    ----------
    facts : mapping of workload to answers
    """
    cases = {name: list(cases_of(answers)) for name, answers in facts.items()}
    frozen, learning = Calibration(), Calibration()
    by_workload: dict[str, Calibration] = {}
    by_drafter: dict[str, Calibration] = {}
    for held_out, judged in cases.items():
        models: dict[str, AcceptanceModel] = {}
        for name, others in cases.items():
            if name != held_out:
                _learn(models, others, keep=KEEP_LONG)
        fixed, own = dict(models), Calibration()
        for case in judged:
            as_it_is = fixed.get(case.drafter, AcceptanceModel())
            frozen = frozen.add(_chance(as_it_is, case), case.stood)
            chance = _chance(models.get(case.drafter, AcceptanceModel()), case)
            learning, own = learning.add(chance, case.stood), own.add(chance, case.stood)
            by_drafter[case.drafter] = by_drafter.get(case.drafter, Calibration()).add(chance, case.stood)
            _learn(models, [case], keep=KEEP)
        if judged:
            by_workload[held_out] = own
    return HeldOut(frozen=frozen, learning=learning, by_workload=by_workload, by_drafter=by_drafter)


def cases_of(answers: Sequence[AnswerFacts]) -> Iterator[Case]:
    """Every token that would have been drafted and judged, drafter by drafter, round by round."""
    for answer in answers:
        for lookup, guesses in answer.lookups.items():
            at = 1
            while at < answer.n_tokens:
                guess = guesses[at]
                k = min(LOOKUP_K, guess.proposed)
                yield from _round(lookup, guess.confidences[:k], guess.matched, at)
                at += min(k, guess.matched) + 1
        at = 1
        while at < len(answer.agrees):
            run = answer.run_from(at)
            yield from _round(DRAFT, answer.confidences[at : at + DRAFT_K], run, at)
            at += min(DRAFT_K, run) + 1


def _round(drafter: str, confidences: Sequence[float], n_right: int, position: int) -> Iterator[Case]:
    for offset, confidence in enumerate(confidences[: n_right + 1]):
        yield Case(
            drafter=drafter,
            confidence=confidence,
            offset=offset,
            position=position,
            stood=offset < n_right,
        )


def _learn(models: dict[str, AcceptanceModel], cases: Sequence[Case], *, keep: float) -> None:
    for case in cases:
        known = models.get(case.drafter, AcceptanceModel())
        models[case.drafter] = known.learn(case.confidence, case.offset, case.position, case.stood, keep=keep)


def _chance(model: AcceptanceModel, case: Case) -> float:
    return model.predict(case.confidence, case.offset, case.position).mean
