"""Costs learned from rounds, the first measurement, and the threshold schedule."""

import json

import numpy as np
import pytest

from leadout.core.cost import CostTable
from leadout.engine.profile import Profile
from leadout.engine.startup import measure
from leadout.engine.threshold import ThresholdJudge, ThresholdSchedule
from leadout.engine.widths import STALE_PASSES
from leadout.errors import InputError
from leadout.testing import PieceVocabulary, TableModel, saying

KNOWN = CostTable(widths=((1, 0.06), (2, 0.09), (4, 0.13)), draft_s=0.02, read_s=0.01, fixed_s=0.001,
                  attention_s=2e-6)  # fmt: skip


def test_costs_follow_what_is_seen():
    profile, rng = Profile(), np.random.default_rng(0)
    assert not profile.is_known
    for _ in range(200):
        for width, seconds in KNOWN.widths:
            profile.saw_verify(width, seconds * (1 + 0.05 * rng.standard_normal()))
        profile.saw_draft(3, 1, KNOWN.drafting_s(3, 2))
        profile.saw_draft(1, 59, KNOWN.drafting_s(1, 60))
        profile.saw_other(0.001)
    costs = profile.costs
    for width, seconds in KNOWN.widths:
        assert costs.verify_s(width) == pytest.approx(seconds, rel=0.05)
    assert costs.draft_s == pytest.approx(0.02, rel=0.1)
    assert costs.read_s == pytest.approx(0.01, rel=0.1)
    assert costs.fixed_s == pytest.approx(0.001, rel=0.1)


def test_what_passes_cost_behind_long_contexts_is_learned_apart_from_what_they_cost_behind_short_ones():
    profile, rng = Profile(KNOWN), np.random.default_rng(0)
    law = KNOWN.behind(0)
    for _ in range(40):
        for n_held in (60, 1600, 3200):
            for width in (1, 2, 4, 8):
                seconds = law.verify_s(width) + 6e-6 * width * n_held
                profile.saw_verify(width, seconds * (1 + 0.03 * rng.standard_normal()), n_held=n_held)
    for n_held in (0, 1600, 6400):
        for width in (1, 4, 8):
            expected = law.verify_s(width) + 6e-6 * width * n_held
            assert profile.costs_of(1, n_held).verify_s(width) == pytest.approx(expected, rel=0.08)
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.costs_of(1, 1600) == profile.costs_of(1, 1600)


def test_one_wide_pass_behind_a_long_context_tells_most_of_what_the_next_one_takes():
    profile = Profile(KNOWN)
    took = KNOWN.verify_s(12) + 6e-6 * 12 * 1600
    for _ in range(2):
        profile.saw_verify(12, took, n_held=1600)
    assert profile.costs_of(1, 1600).verify_s(12) == pytest.approx(took, rel=0.03)
    assert profile.costs.verify_s(12) == pytest.approx(KNOWN.verify_s(12), rel=0.05)
    profile.saw_verify(12, 30.0, n_held=1600)
    assert profile.costs_of(1, 1600).verify_s(12) < 1.5 * took


def test_several_slots_attend_to_what_each_of_them_holds():
    profile = Profile(KNOWN)
    assert profile.costs_of(3, 1024).verify_s(2) == pytest.approx(
        profile.costs_of(3).verify_s(2) + KNOWN.attention_s * (2 + 2) * 1024
    )


def test_an_outlier_moves_little():
    profile = Profile(KNOWN)
    profile.saw_verify(2, 30.0)
    assert profile.costs.verify_s(2) < 1.3 * 0.09
    profile.saw_draft(1, 0, 30.0)
    profile.saw_draft(1, 0, 0.0)
    profile.saw_verify(2, 0.0)
    profile.saw_verify(500, 1.0)
    assert 500 not in dict(profile.costs.widths)


def test_what_all_costs_have_in_common_is_followed_for_widths_that_are_not_seen():
    profile = Profile(KNOWN)
    for _ in range(60):
        profile.saw_verify(1, 0.09)
    assert profile.costs.verify_s(1) == pytest.approx(0.09, rel=0.03)
    assert profile.costs.verify_s(4) > 0.14


def test_a_machine_that_stays_far_off_makes_the_profile_learn_anew():
    profile = Profile(KNOWN)
    for _ in range(400):
        for width, seconds in KNOWN.widths:
            profile.saw_verify(width, seconds * 4)
    assert profile.costs.verify_s(4) == pytest.approx(0.52, rel=0.05)
    profile.saw_verify(4, 0.26)
    assert profile.costs.verify_s(4) < 0.52


def test_a_profile_survives_being_written_and_a_damaged_one_is_refused():
    profile = Profile(KNOWN)
    values = json.loads(json.dumps(profile.to_json()))
    assert Profile.from_json(values).costs == KNOWN
    with pytest.raises(InputError, match="a profile needs seconds for draft_s"):
        Profile.from_json(values | {"draft_s": "slow"})
    for beyond in ({"drift": 1e308}, {"draft_s": 10**400}, {"fixed_s": True}):
        with pytest.raises(InputError, match="a profile needs seconds for draft_s"):
            Profile.from_json(values | beyond)
    with pytest.raises(InputError, match="seconds and age for each width"):
        Profile.from_json(values | {"widths": {"1": [1e308, 0]}})
    with pytest.raises(InputError, match="widths that are whole numbers"):
        Profile.from_json(values | {"widths": {"one": [1.0, 0]}})
    with pytest.raises(InputError, match="widths that are whole numbers"):
        Profile.from_json(values | {"widths": {"9" * 5000: [1.0, 0]}})


def test_costs_too_small_to_be_true_are_held_to_what_can_be():
    least = {"widths": {"1": [5e-324, 0], "2": [5e-324, 0]}, "drift": -20.0, "wide_drift": -20.0}
    values = Profile(KNOWN).to_json() | least | {"draft_s": 5e-324, "read_s": 5e-324}
    profile = Profile.from_json(json.loads(json.dumps(values)))
    for _ in range(200):
        assert profile.costs.verify_s(1) > 0
        profile.saw_draft(2, 1, 0.05)
        for width, seconds in KNOWN.widths:
            profile.saw_verify(width, seconds)
    assert profile.costs.verify_s(1) == pytest.approx(0.06, rel=0.2)


def test_attention_that_cannot_be_true_is_held_to_what_can_be():
    values = Profile(KNOWN).to_json() | {"attention_s": 1e9}
    profile = Profile.from_json(json.loads(json.dumps(values)))
    for n_held in (1024, 64):
        law = KNOWN.behind(n_held)
        for _ in range(60):
            for width in (1, 2, 4):
                profile.saw_verify(width, law.verify_s(width), n_held=n_held)
        assert profile.costs_of(1, n_held).verify_s(4) == pytest.approx(law.verify_s(4), rel=0.1)
    with pytest.raises(InputError, match="a profile needs seconds"):
        Profile.from_json(values | {"attention_s": -1.0})


class Timed(TableModel):
    """Each pass takes time by its width on a clock that nobody else moves."""

    def __init__(self, rule, seconds, now):
        vocab = Reciting([f" {i}".encode() for i in range(10)])
        super().__init__(rule, n_vocab=10, vocab=vocab)
        self._seconds, self._now = seconds, now

    def forward(self, chunks):
        self._now[0] += self._seconds(sum(len(chunk.tokens) for chunk in chunks))
        return super().forward([*chunks])


class Reciting(PieceVocabulary):
    """Every text is 0, 1, 2 ... here."""

    def encode(self, text, *, add_bos, special):
        return [i % 10 for i in range(60)]


PLUS_ONE = saying(lambda tokens: (tokens[-1] + 1) % 10, 10)


def pair(target_s, draft_s, draft_rule=PLUS_ONE):
    now = [0.0]
    target, draft = Timed(PLUS_ONE, target_s, now), Timed(draft_rule, draft_s, now)
    return target, draft, lambda: now[0]


def test_the_first_measurement_finds_costs_and_agreement():
    target, draft, clock = pair(lambda w: 0.04 + 0.02 * w, lambda w: 0.013 + 0.007 * w)
    found = measure(target, draft, clock=clock, budget_s=10)
    assert {w for w, _ in found.costs.widths} == {1, 2, 3, 4, 5, 6, 8, 12, 16}
    assert found.costs.verify_s(8) == pytest.approx(0.2)
    assert found.costs.draft_s == pytest.approx(0.02)
    assert found.costs.read_s == pytest.approx(0.007)
    assert len(found.agreements) == 16
    assert all(each.stood for each in found.agreements)
    assert target.length(0) == draft.length(0) == 0
    liar = pair(lambda w: 0.01, lambda w: 0.01, saying(lambda tokens: tokens[-1], 10))
    assert not any(each.stood for each in measure(*liar[:2], clock=liar[2]).agreements)


def test_the_first_measurement_keeps_to_its_budget():
    target, draft, clock = pair(lambda w: 0.06 * w, lambda w: 0.01 * w)
    found = measure(target, draft, clock=clock, budget_s=1.5)
    assert found.seconds <= 1.5
    assert 1 < len(found.costs.widths) < 9
    alone = measure(target, None, clock=clock, budget_s=0.0)
    assert [w for w, _ in alone.costs.widths] == [1]
    assert (alone.costs.draft_s, alone.agreements) == (0.0, ())


def test_the_threshold_ends_a_draft_before_the_first_doubt():
    judge = ThresholdJudge(threshold=0.7, ks=range(9))
    assert judge.weigh("x", [0.9, 0.8, 0.5, 0.9]).k == 2
    assert judge.promise("x", 1) > 0
    assert judge.takes("x", [0.9, 0.7])
    assert not judge.takes("x", [0.9, 0.69])
    assert judge.goes_on("x", [0.9])
    gaps = ThresholdJudge(threshold=0.7, ks=[0, 3])
    assert gaps.weigh("x", [0.9, 0.8, 0.5, 0.9]).k == 0
    assert gaps.takes("x", [0.9, 0.1])  # it may not end after one token


def test_a_threshold_out_of_range_is_refused():
    with pytest.raises(InputError, match=r"threshold is 1.5; it must be a probability in 0\.\.1"):
        ThresholdSchedule(threshold=1.5)
    assert ThresholdSchedule().name == "threshold 0.7, k<=8"


def test_a_width_measured_in_a_busy_moment_is_not_believed_and_measured_anew():
    profile = Profile(CostTable(widths=((1, 0.004), (2, 0.005), (3, 0.34))))
    assert [width for width, _ in profile.costs.widths] == [1, 2]
    profile.saw_verify(3, 0.007)
    assert profile.costs.verify_s(3) == pytest.approx(0.007)


def test_a_width_that_was_wrongly_found_dear_is_doubted_once_it_has_not_been_seen_for_long():
    costs = CostTable(widths=((1, 0.03), (2, 0.04), (4, 0.15), (8, 0.12)))
    profile = Profile(costs)
    for i in range(STALE_PASSES + 50):
        assert i > STALE_PASSES or profile.costs.verify_s(4) == pytest.approx(0.15)
        profile.saw_verify(1, 0.03)
    assert profile.costs.verify_s(4) == pytest.approx(0.075)  # half a single pass for each further token
    assert profile.costs.verify_s(2) == pytest.approx(0.04)
    profile.saw_verify(4, 0.06)
    assert profile.costs.verify_s(4) == pytest.approx(0.06)
    profile.saw_verify(4, 0.15)
    assert profile.costs.verify_s(4) == pytest.approx(0.06 * np.sqrt(2.5))  # two samples, in logarithms


def test_what_is_stale_stays_so_in_the_next_process():
    profile = Profile(CostTable(widths=((1, 0.03), (4, 0.15))))
    for _ in range(STALE_PASSES + 50):
        profile.saw_verify(1, 0.03)
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.costs == profile.costs
    assert again.costs.verify_s(4) == pytest.approx(0.075)


def test_a_machine_that_became_faster_for_good_is_learned_with_all_widths():
    """Simulated: first half busy, then three times as fast; what a round costs is right again soon."""
    profile, rng = Profile(KNOWN), np.random.default_rng(3)
    for i in range(600):
        factor = 3.0 if i < 300 else 1.0
        for width in (1, 2):
            seconds = dict(KNOWN.widths)[width] * factor * (1 + 0.03 * rng.standard_normal())
            profile.saw_verify(width, seconds)
        if i == 299:
            assert profile.costs.verify_s(1) == pytest.approx(0.18, rel=0.05)
            assert profile.costs.verify_s(4) > 1.5 * KNOWN.verify_s(4)  # not seen, but it drifts along
    assert profile.costs.verify_s(1) == pytest.approx(0.06, rel=0.05)
    assert profile.costs.verify_s(2) == pytest.approx(0.09, rel=0.05)


def test_slower_single_passes_make_wide_ones_that_are_not_tried_only_half_as_much_dearer():
    profile = Profile(KNOWN)
    for _ in range(200):
        profile.saw_verify(1, 0.09)
    assert profile.costs.verify_s(1) == pytest.approx(0.09, rel=0.01)
    assert profile.costs.verify_s(4) == pytest.approx(KNOWN.verify_s(4) * np.sqrt(1.5), rel=0.01)


def test_no_pass_is_expected_to_be_cheaper_than_a_single_one():
    profile = Profile(CostTable(widths=((1, 0.03), (2, 0.031))))
    for _ in range(200):
        profile.saw_verify(1, 0.06)
    assert profile.costs.verify_s(2) == profile.costs.verify_s(1) == pytest.approx(0.06, rel=0.01)


def test_costs_with_several_slots_start_from_those_of_one_and_are_learned_by_themselves():
    profile = Profile(CostTable(widths=((1, 1.0), (2, 1.2), (3, 1.5), (4, 2.5)), draft_s=0.2, read_s=0.1))
    shared = profile.costs_of(2)
    assert shared.verify_s(1) == pytest.approx(1.2)
    assert shared.extra_s(2) == pytest.approx(1.3)
    assert shared.draft_s == pytest.approx((0.2 + 0.1) / 2)  # a slot's share of a pass for both
    for _ in range(5):
        profile.saw_verify(2, 2.0, n_active=2)
        profile.saw_verify(4, 3.0, n_active=2)
    assert profile.costs_of(2).verify_s(1) == pytest.approx(2.0)
    assert profile.costs_of(2).verify_s(3) == pytest.approx(3.0)
    assert profile.costs.verify_s(1) == pytest.approx(1.0)


def test_a_disturbed_pass_of_the_first_measurement_does_not_count():
    n = [0]

    def target_s(width):
        n[0] += 1
        return (0.04 + 0.02 * width) * (4 if width == 4 and n[0] < 12 else 1)

    target, draft, clock = pair(target_s, lambda w: 0.01)
    found = measure(target, draft, clock=clock, budget_s=10)
    assert found.costs.verify_s(4) == pytest.approx(0.12)
