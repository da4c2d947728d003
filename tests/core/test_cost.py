"""Costs per width and the best length of a draft, against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.core.cost import CostTable, attention_between, best_prefix, draft_policy, speed_of
from leadout.errors import InputError

UNEVEN = CostTable(widths=((1, 1.0), (2, 1.6), (4, 2.0), (8, 6.0), (12, 5.0)), draft_s=0.2, read_s=0.1)


def test_a_measured_width_costs_what_was_measured():
    assert [UNEVEN.verify_s(w) for w, _ in UNEVEN.widths] == [1.0, 1.6, 2.0, 6.0, 5.0]


def test_widths_between_are_on_the_line_and_beyond_never_cheaper():
    assert UNEVEN.verify_s(3) == pytest.approx(1.8)
    assert UNEVEN.verify_s(6) == pytest.approx(4.0)
    assert UNEVEN.verify_s(20) == 5.0
    rising = CostTable(widths=((1, 1.0), (2, 1.5), (4, 2.5)))
    assert rising.verify_s(10) == pytest.approx(5.5)


def test_with_single_tokens_alone_more_are_taken_to_cost_half_each():
    assert CostTable(widths=((1, 2.0),)).verify_s(4) == pytest.approx(5.0)


def test_rounds_are_added_up():
    costs = CostTable(widths=((1, 1.0), (2, 1.5), (3, 2.5)), draft_s=0.2, read_s=0.1, fixed_s=0.05)
    assert costs.plain_s() == pytest.approx(1.05)
    assert costs.extra_s(2) == pytest.approx(1.5)
    assert costs.drafting_s(3, 5) == pytest.approx(3 * 0.2 + 4 * 0.1)
    assert costs.drafting_s(0, 5) == 0


@pytest.mark.parametrize(
    ("widths", "said"),
    [((), "ascending widths from 1"), (((2, 1.0),), "ascending widths from 1"),
     (((1, 1.0), (1, 2.0)), "ascending widths from 1"), (((1, 0.0),), "seconds above 0")],
)  # fmt: skip
def test_a_table_without_a_basis_is_refused(widths, said):
    with pytest.raises(InputError, match=said):
        CostTable(widths=widths)


costs = st.lists(st.floats(0.5, 9), min_size=6, max_size=6).map(
    lambda seconds: CostTable(widths=tuple(enumerate(seconds, start=1)), draft_s=0.1)
)


@given(
    table=costs,
    chances=st.lists(st.floats(0, 1), max_size=5),
    rate=st.floats(0.1, 3),
    ks=st.sets(st.integers(1, 5)).map(lambda found: [0, *sorted(found)]),
)
def test_the_best_prefix_is_the_best_of_all(table, chances, rate, ks):
    def worth(k):
        expected = sum(np.prod(chances[: i + 1]) for i in range(k))
        return expected - rate * (table.verify_s(k + 1) - table.verify_s(1))

    k, value = best_prefix(chances, table, rate, ks=ks)
    allowed = [k for k in ks if k <= len(chances)]
    assert k in allowed
    assert value == pytest.approx(max(0.0, *(worth(each) for each in allowed), 0.0))
    assert value == pytest.approx(worth(k) if k else 0.0)


def test_a_cheap_width_behind_a_dear_one_is_found():
    k, _ = best_prefix([0.97] * 15, UNEVEN, 1.0, ks=range(16))
    assert k >= 11
    assert best_prefix([0.97] * 15, UNEVEN, 1.0, ks=range(8))[0] == 3


def brute(i, chance, rows, table, rate, ks, seen=()):
    """Worth to come after i tokens by trying everything: stop, or draw a row and take or leave it."""
    stop = -rate * table.extra_s(i) if i in ks else -np.inf
    if i == ks[-1]:
        return stop
    total = 0.0
    for p in rows[i]:
        together = chance * p
        total += max(stop, together + brute(i + 1, together, rows, table, rate, ks))
    return max(stop, total / len(rows[i]) - rate * table.draft_s)


@pytest.mark.parametrize("ks", [[0, 1, 2, 3, 4], [0, 1, 3], [0, 4], [0]])
@pytest.mark.parametrize("rate", [0.3, 0.8, 1.5])
def test_the_policy_is_worth_what_trying_everything_finds(ks, rate):
    table = CostTable(widths=((1, 1.0), (2, 1.7), (3, 1.8), (4, 2.6), (5, 2.7)), draft_s=0.15)
    rows = np.array([[0.3, 0.9], [0.5, 1.0], [0.2, 0.8], [0.6, 0.9]])
    policy = draft_policy(rows[: ks[-1]], table, rate, ks=ks)
    if ks == [0]:
        assert policy.worth == -np.inf
        assert not policy.goes_on(0, 1.0)
        assert not policy.takes(0, 1.0)
        return
    expected = brute(0, 1.0, rows, table, rate, ks)
    assert max(0.0, policy.worth) == pytest.approx(expected, abs=0.02)


def test_the_policy_ends_only_where_it_may():
    table = CostTable(widths=((1, 1.0), (2, 1.7), (3, 2.4), (4, 2.5)), draft_s=0.1)
    policy = draft_policy(np.full((3, 1), 0.9), table, 1.0, ks=[0, 3])
    for n, chance in itertools.product((1, 2), (0.0, 0.3, 1.0)):
        assert policy.goes_on(n, chance)
        assert policy.takes(n, chance)
    assert not policy.takes(0, 0.01)
    assert not policy.goes_on(3, 1.0)
    assert policy.typical == (0.9, 0.9, 0.9)


def test_one_more_pass_gains_what_it_is_worth_beyond_ending_there():
    table = CostTable(widths=((1, 1.0), (2, 1.7), (3, 2.4), (4, 2.5)), draft_s=0.1)
    policy = draft_policy(np.full((3, 1), 0.9), table, 1.0, ks=[0, 2, 3])
    assert policy.gain(0, 1.0) == pytest.approx(policy.worth)
    # the last token: verified for 0.1 s more, drafted for 0.1 s
    assert policy.gain(2, 0.8) == pytest.approx(0.8 * 0.9 - 0.1 - 0.1, abs=0.02)
    assert policy.gain(2, 0.8) > policy.gain(2, 0.3)
    assert policy.gain(1, 1.0) == -np.inf  # a draft may not end there
    assert policy.gain(3, 1.0) == -np.inf


def test_speed_is_expected_tokens_over_the_seconds_of_a_round():
    costs = CostTable(widths=((1, 17.0), (16, 17.0001)), draft_s=9.0)
    assert speed_of(0, 0.7, costs) == pytest.approx(1 / 17)
    assert speed_of(3, 0.7, costs) == pytest.approx(2.533 / (17 + 3 * 9), rel=1e-3)
    assert speed_of(3, 0.7, costs) / speed_of(0, 0.7, costs) == pytest.approx(0.98, abs=0.005)


def test_what_attention_costs_is_found_between_two_contexts_and_added_behind_any():
    base = CostTable(widths=((1, 10.0), (4, 16.0)), draft_s=2.0, attention_s=0.001)
    short, long = (base.behind(n) for n in (100, 900))
    assert long.verify_s(4) == pytest.approx(16.0 + 0.001 * 4 * 900)
    assert (long.draft_s, long.attention_s) == (2.0, 0.0)
    assert base.behind(100, n_active=3).verify_s(1) == pytest.approx(10.0 + 0.001 * 3 * 100)
    assert attention_between(short, long, 800) == pytest.approx(0.001)
    assert attention_between(long, short, 800) == 0.0
    assert attention_between(short, short, 0) == 0.0
