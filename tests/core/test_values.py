from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from leadout.core.values import Distribution, History, Proposal, Sampling
from leadout.errors import InputError


def row(**probs: float) -> Distribution:
    ids = [int(name[1:]) for name in probs]
    return Distribution(ids=np.array(ids, dtype=np.int64), probs=np.array(list(probs.values())))


def test_probability_is_zero_outside_the_support():
    p = row(_2=0.25, _5=0.75)
    assert [p.prob(i) for i in (-1, 0, 2, 3, 5, 6)] == [0, 0, 0.25, 0, 0.75, 0]


def test_probabilities_of_many_ids_equal_those_of_each():
    p = row(_2=0.25, _5=0.75)
    for asked in ([6, 5, 3, 2, 0, -1, 5], [2, 5], [5, 2], [2, 6], []):
        ids = np.array(asked, dtype=np.int64)
        assert p.probs_of(ids).tolist() == [p.prob(i) for i in asked]


def test_a_point_has_one_certain_token():
    p = Distribution.point(7)
    assert (p.ids.tolist(), p.probs.tolist(), p.ids.dtype) == ([7], [1.0], np.int64)


def test_a_proposal_needs_a_row_per_token():
    with pytest.raises(InputError, match="a proposal of 2 tokens needs as many rows, got 1"):
        Proposal(tokens=(1, 2), rows=(Distribution.point(1),))


def test_an_empty_proposal_needs_no_rows():
    assert Proposal().tokens == ()
    assert Proposal(rows=()).rows == ()


def test_history_grows_without_changing_the_old_one():
    before = History(prompt=frozenset({9}), generated=(1,))
    after = before.after([2, 2])
    assert (after.prompt, after.generated) == (frozenset({9}), (1, 2, 2))
    assert before.generated == (1,)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", -0.1, r"a number >= 0 \(0 is greedy\)"),
        ("temperature", math.inf, "a number >= 0"),
        ("temperature", math.nan, "a number >= 0"),
        ("temperature", "hot", "a number >= 0"),
        ("temperature", True, "a number >= 0"),
        ("temperature", None, "a number >= 0"),
        ("top_p", 0.0, r"a number in \(0, 1\]; 1 is off"),
        ("top_p", 1.5, r"a number in \(0, 1\]"),
        ("min_p", -0.1, r"a number in \[0, 1\]; 0 is off"),
        ("min_p", 1.1, r"a number in \[0, 1\]"),
        ("frequency_penalty", 2.5, r"a number in \[-2, 2\]"),
        ("presence_penalty", -2.5, r"a number in \[-2, 2\]"),
        ("repetition_penalty", 0.0, "a number > 0; 1 is off"),
        ("repetition_penalty", -1.0, "a number > 0"),
        ("top_k", -1, r"a whole number >= 0 \(0 is off\)"),
        ("top_k", 2.0, "a whole number >= 0"),
        ("top_k", True, "a whole number >= 0"),
        ("logit_bias", [1], "map ids >= 0 to finite numbers"),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(name, value, allowed):
    with pytest.raises(InputError, match=f"^{name} is .*; it must .*{allowed}") as caught:
        Sampling(**{name: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    "bias",
    [{-1: 1.0}, {True: 1.0}, {"1": 1.0}, {1.5: 1.0}, {1: math.inf}, {1: -math.inf}, {1: math.nan}, {1: "x"}],
)
def test_a_bias_that_is_no_id_or_no_finite_number_is_refused(bias):
    with pytest.raises(InputError, match=r"logit_bias has .*: .*; it must map ids >= 0 to finite numbers"):
        Sampling(logit_bias=bias)


def test_ends_of_the_ranges_are_allowed():
    for values in (
        {"temperature": 0, "top_p": 1, "min_p": 1, "top_k": 0},
        {"temperature": 1e300, "top_p": 5e-324, "min_p": 0, "repetition_penalty": 5e-324},
        {"frequency_penalty": -2, "presence_penalty": 2.0, "logit_bias": {0: -100}},
    ):
        made = Sampling(**values)
        assert {name: getattr(made, name) for name in values} == values


def test_later_changes_of_the_callers_bias_change_nothing():
    bias = {1: 2.0}
    sampling = Sampling(logit_bias=bias)
    bias[1] = math.inf
    assert sampling.logit_bias == {1: 2.0}


def test_a_sampling_law_becomes_a_dictionary_for_reports():
    assert dataclasses.asdict(Sampling(top_k=3))["logit_bias"] == {}


def test_only_temperature_zero_is_greedy():
    assert Sampling(temperature=0.0).is_greedy
    assert not Sampling(temperature=5e-324).is_greedy


@pytest.mark.parametrize("name", ["repetition_penalty", "frequency_penalty", "presence_penalty"])
def test_each_penalty_makes_the_law_depend_on_the_history(name):
    assert not Sampling().has_penalties
    assert Sampling(**{name: 1.5}).has_penalties


def test_beginning_of_a_proposal_belongs_to_whoever_gave_it():
    whole = Proposal(
        tokens=(1, 2, 3, 4), drafter="m", confidences=(0.4, 0.3, 0.2, 0.1), n_given=2, given_by="suffix"
    )
    assert whole.source == "suffix+m"
    assert [whole.drafter_of(at) for at in range(4)] == ["suffix", "suffix", "m", "m"]
    assert whole.first(4) is whole
    parts = [whole.first(k) for k in (1, 2, 3)]
    assert [(part.tokens, part.source) for part in parts] == [
        ((1,), "suffix"),
        ((1, 2), "suffix"),
        ((1, 2, 3), "suffix+m"),
    ]
    assert [part.confidences for part in parts] == [(0.4,), (0.4, 0.3), (0.4, 0.3, 0.2)]
    assert [(part.n_given, part.given_by) for part in parts] == [(0, ""), (0, ""), (2, "suffix")]


def test_proposal_needs_a_confidence_for_each_token_or_none():
    with pytest.raises(InputError, match="a proposal of 2 tokens needs as many confidences or none, got 1"):
        Proposal(tokens=(1, 2), confidences=(0.5,))
