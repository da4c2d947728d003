"""Acceptance predicted for workloads that nothing was learned from."""

import pytest

from leadout.bench.heldout import DRAFT_K, cases_of, judge_held_out, scored
from leadout.bench.hindsight import AnswerFacts, Guess
from leadout.core.estimate import Calibration


def sure(pattern, right=0.95, wrong=0.3):
    """A draft that is surer where it is right."""
    agrees = tuple(each == "1" for each in pattern)
    return AnswerFacts(
        n_tokens=len(pattern), agrees=agrees, confidences=tuple(right if each else wrong for each in agrees)
    )


def test_rounds_end_at_the_first_rejection_and_go_on_after_it():
    cases = list(cases_of([sure("0110111111")]))
    assert [(each.position, each.offset, each.stood) for each in cases] == [
        (1, 0, True), (1, 1, True), (1, 2, False),
        *((4, offset, True) for offset in range(DRAFT_K)),
        (9, 0, True),
    ]  # fmt: skip
    assert {each.drafter for each in cases} == {"draft"}


def test_lookups_are_judged_as_far_as_they_proposed():
    guesses = (Guess(), Guess(proposed=2, matched=2, confidences=(0.8, 0.7)), Guess(), Guess(),
               Guess(proposed=3, matched=0, confidences=(0.4, 0.4, 0.4)))  # fmt: skip
    cases = list(cases_of([AnswerFacts(n_tokens=5, lookups={"ngram": guesses})]))
    assert [(each.drafter, each.position, each.confidence, each.stood) for each in cases] == [
        ("ngram", 1, 0.8, True), ("ngram", 1, 0.7, True), ("ngram", 4, 0.4, False),
    ]  # fmt: skip


def test_confidences_that_tell_beat_the_running_mean():
    pattern = "0" + "110101110010" * 6
    found = judge_held_out({"chat": [sure(pattern)], "code": [sure(pattern)], "maths": [sure(pattern)]})
    assert scored(found.frozen)["gain"] > 0.5
    assert scored(found.learning)["gain"] > 0.5
    assert set(found.by_workload) == {"chat", "code", "maths"}
    assert found.learning.n == found.frozen.n == sum(each.n for each in found.by_workload.values())


def test_what_was_learned_elsewhere_is_what_is_judged():
    """A draft whose confidence means the opposite in the one workload that is held out."""
    pattern = "0" + "110101110010" * 6
    true, false = sure(pattern), sure(pattern, right=0.3, wrong=0.95)
    found = judge_held_out({"chat": [true], "code": [true], "odd": [false]})
    assert scored(found.by_workload["odd"])["gain"] < 0
    assert scored(found.by_workload["chat"])["gain"] > scored(found.by_workload["odd"])["gain"]


def test_confidences_that_tell_nothing_gain_little():
    pattern = "0" + "110101110010" * 6
    flat = sure(pattern, right=0.6, wrong=0.6)
    found = judge_held_out({"chat": [flat], "code": [flat]})
    assert scored(found.learning)["gain"] == pytest.approx(0, abs=0.15)  # places in a round tell a little


def test_nothing_drafted_scores_nothing():
    found = judge_held_out({"chat": [AnswerFacts(n_tokens=3)]})
    assert found.by_workload == {}
    assert found.to_json()["learning"]["gain"] is None
    assert scored(Calibration())["brier"] is None
