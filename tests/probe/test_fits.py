"""The tests of draws: alarms where the law is wrong, and false ones as rarely as stated."""

import math
from collections import Counter

import numpy as np
import pytest

from leadout.probe.fits import fit_group, fit_p_value, permutation_p_value, two_samples
from leadout.probe.law import FALSE_ALARM, Law

LAW = {7: math.log(0.55), 8: math.log(0.35), 9: math.log(0.08)}  # 0.02 is not told


def drawn(law, n, random):
    tokens = [*law, 99]
    probs = [*map(math.exp, law.values())]
    return Counter(random.choice(tokens, size=n, p=[*probs, 1 - sum(probs)]).tolist())


def test_right_draws_raise_no_more_alarms_than_stated():
    random = np.random.default_rng(5)
    p_values = [fit_group(1, drawn(LAW, 60, random), LAW, random).p_value for _ in range(200)]
    # 200 tests at 0.05: more than 22 have a chance below 0.001
    assert sum(p <= 0.05 for p in p_values) <= 22


def test_greedy_draws_are_caught_in_the_smallest_group():
    random = np.random.default_rng(5)
    group = fit_group(1, Counter({7: 25}), LAW, random)
    assert group.is_peaked
    assert group.p_value < FALSE_ALARM / 20
    assert group.p_value_greedy < FALSE_ALARM / 20


def test_half_greedy_draws_are_caught():
    random = np.random.default_rng(5)
    counts = drawn(LAW, 75, random) + Counter({7: 75})
    assert fit_group(1, counts, LAW, random).p_value < FALSE_ALARM


def test_law_without_freedom_cannot_show_a_greedy_verifier():
    sure = {7: math.log(0.995)}
    group = fit_group(1, Counter({7: 100}), sure, np.random.default_rng(5))
    assert group.p_value_greedy > FALSE_ALARM
    assert Law(method="own probabilities", n_draws=100, groups=(group,)).result == "no power"


def test_token_that_is_not_told_counts_among_the_rest():
    random = np.random.default_rng(5)
    assert fit_group(1, Counter({7: 50, 99: 50}), LAW, random).p_value < FALSE_ALARM


def test_certain_fit_has_p_value_1():
    assert fit_p_value(np.array([0.5, 0.5]), np.array([10, 10]), np.random.default_rng(1)) == 1.0


def test_same_samples_are_alike_and_greedy_ones_are_not():
    random = np.random.default_rng(5)
    theirs = random.choice(
        ["heads and then heads", "heads and then tails", "tails and then tails"], 100
    ).tolist()
    same = random.choice(
        ["heads and then heads", "heads and then tails", "tails and then tails"], 100
    ).tolist()
    assert two_samples(same, theirs, random).p_value > FALSE_ALARM
    greedy = [f"{text.split()[0]} and then tails" for text in same]
    group = two_samples(greedy, theirs, random)
    assert group.p_value < FALSE_ALARM
    assert group.is_peaked


def test_permutation_of_one_sided_tables_says_nothing():
    assert permutation_p_value(np.array([[5, 0], [5, 0]]), np.random.default_rng(1)) == 1.0


def test_permutation_p_value_equals_fishers_for_a_2x2_table():
    # [[8, 2], [1, 5]]: tables as unlikely or more have probability 0.0350 (Fisher's exact test, two-sided)
    p_value = permutation_p_value(np.array([[8, 2], [1, 5]]), np.random.default_rng(1))
    assert p_value == pytest.approx(0.0350, abs=0.003)


def test_significance_is_divided_by_the_number_of_groups():
    random = np.random.default_rng(5)
    group = fit_group(1, drawn(LAW, 100, random), LAW, random)
    law = Law(method="own probabilities", n_draws=100, groups=(group,) * 20)
    assert law.limit == pytest.approx(FALSE_ALARM / 20)
    assert law.p_value == min(1.0, 20 * group.p_value)


def test_wrong_control_blames_the_settings_and_not_speculation():
    random = np.random.default_rng(5)
    control = fit_group(0, Counter({9: 50}), LAW, random)
    other = fit_group(1, Counter({9: 50}), LAW, random)
    assert Law(method="own probabilities", n_draws=50, groups=(control, other)).result == "control differs"
