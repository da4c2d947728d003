from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadout.core.law import logprob, only, shape, top_logprobs, top_probability
from leadout.core.values import Distribution, History, Sampling
from leadout.errors import BackendError, InputError

PLAIN = Sampling(temperature=1.0, top_p=1.0)


def naive(logits, sampling: Sampling, history: History | None = None) -> dict[int, float]:
    """The law word for word, with a full sort; the only liberty is that a threshold is met within 1e-12."""
    history = history or History()
    x = [float(value) for value in logits]
    for token, bias in sampling.logit_bias.items():
        x[token] += bias
    for token in {*history.prompt, *history.generated}:
        x[token] = (
            x[token] / sampling.repetition_penalty if x[token] > 0 else x[token] * sampling.repetition_penalty
        )
    for token in set(history.generated):
        x[token] -= sampling.frequency_penalty * history.generated.count(token) + sampling.presence_penalty
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    top = x[order[0]]
    if sampling.temperature == 0:
        return {order[0]: 1.0}
    if sampling.top_k:
        order = order[: sampling.top_k]
    weight = {i: math.exp((x[i] - top) / sampling.temperature) for i in order}
    if sampling.top_p < 1:
        target, mass, kept = sampling.top_p * math.fsum(weight.values()) * (1 - 1e-12), 0.0, []
        for i in order:
            kept.append(i)
            mass += weight[i]
            if mass >= target:
                break
        order = kept
    order = [i for i in order if weight[i] >= max(sampling.min_p * (1 - 1e-12), np.finfo(float).tiny)]
    total = math.fsum(weight[i] for i in order)
    return {i: weight[i] / total for i in sorted(order)}


def check(logits, sampling: Sampling, history: History | None = None) -> Distribution:
    """Shape a row both ways and compare; returns the shaped row."""
    before = logits.copy()
    shaped, wanted = shape(logits, sampling, history), naive(logits, sampling, history)
    assert np.array_equal(logits, before)
    assert shaped.ids.tolist() == list(wanted)
    assert shaped.ids.dtype == np.int64
    assert shaped.probs.dtype == np.float64
    np.testing.assert_allclose(shaped.probs, list(wanted.values()), rtol=1e-12, atol=1e-12)
    assert abs(shaped.probs.sum() - 1) < 1e-12
    assert (shaped.probs > 0).all()
    return shaped


def samplings(n_vocab: int) -> st.SearchStrategy[Sampling]:
    return st.builds(
        Sampling,
        logit_bias=st.dictionaries(st.integers(0, n_vocab - 1), st.floats(-100, 100), max_size=3),
        repetition_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.7]),
        frequency_penalty=st.sampled_from([0.0, 0.0, 0.5, -1.5]),
        presence_penalty=st.sampled_from([0.0, 0.0, 0.25, 2.0]),
        temperature=st.one_of(st.sampled_from([0.0, 1.0, 0.8, 1e-310, 1e-12, 1e300]), st.floats(0.05, 5)),
        top_k=st.sampled_from([0, 0, 1, 2, 5, 17, 1000]),
        top_p=st.one_of(st.sampled_from([1.0, 0.95, 0.5, 1e-9, 5e-324, 1 - 1e-15]), st.floats(0.01, 1)),
        min_p=st.one_of(st.sampled_from([0.0, 0.05, 0.5, 1.0, 1e-25]), st.floats(0, 1)),
    )


@st.composite
def rows(draw):
    n_vocab = draw(st.integers(1, 40))
    values = st.one_of(
        st.floats(-30, 30, width=32), st.sampled_from([0.0, 1.0, -1.0, -math.inf, 1e30, -1e30, 1e-30, 88.5])
    )
    logits = draw(st.lists(values, min_size=n_vocab, max_size=n_vocab))
    if max(logits) == -math.inf:
        logits[draw(st.integers(0, n_vocab - 1))] = 0.0
    ids = st.integers(0, n_vocab - 1)
    history = History(
        prompt=draw(st.frozensets(ids, max_size=4)), generated=tuple(draw(st.lists(ids, max_size=6)))
    )
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return np.array(logits, dtype=dtype), draw(samplings(n_vocab)), history


@settings(max_examples=250, deadline=None)
@given(rows())
def test_every_law_equals_the_naive_one(case):
    check(*case)


LAWS = {
    "plain": PLAIN,
    "default": Sampling(),
    "top-p": Sampling(temperature=1.0, top_p=0.5),
    "high top-p": Sampling(temperature=1.3, top_p=0.9999),
    "top-k": Sampling(top_k=40, top_p=1.0),
    "wide top-k": Sampling(top_k=3000, top_p=0.8),
    "top-k of nearly all": Sampling(top_k=5999, top_p=0.97),
    "min-p": Sampling(top_p=1.0, min_p=0.02),
    "all": Sampling(logit_bias={3: 4.0, 9: -100.0}, temperature=0.7, top_k=500, top_p=0.9, min_p=0.001),
    "min-p under top-p": Sampling(temperature=1.0, top_p=0.99, min_p=0.1),
}


def test_double_precision_rows_beyond_the_range_of_single_are_shaped():
    logits = np.array([1e300, 1e300 * (1 - 1e-16), -1e300, 0.0])
    for temperature in (1e-12, 1.0, 1e19):
        check(logits, Sampling(temperature=temperature, top_p=0.9))
    check(1e8 + np.random.default_rng(0).normal(0, 2, 3000), Sampling(temperature=1.0, top_p=0.9))


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows_equal_the_naive_law(spread, law, dtype):
    generator = np.random.default_rng(5)
    logits = generator.normal(0, spread, 6000)
    logits[generator.integers(0, 6000, 8)] += 3 * spread
    check(logits.astype(dtype), LAWS[law])


def test_many_equal_logits_keep_the_lowest_ids():
    logits = np.repeat(np.array([0.0, 1.0, 0.0], dtype=np.float32), 3000)
    check(logits, Sampling(temperature=1.0, top_p=0.25))
    assert check(logits, Sampling(top_k=3004, top_p=1.0)).ids.tolist() == [0, 1, 2, 3, *range(3000, 6000)]


def test_a_top_p_that_coarse_weights_cannot_decide_is_decided_exactly():
    # .5 + .3 reach .8 of a total whose tail single precision cannot add up well enough.
    n_tail = 50_000
    head = np.log([0.5, 0.3, 0.1])
    for shift, kept in ((-1e-9, 2), (1e-9, 3)):
        tail = np.full(n_tail, math.log((0.1 + shift) / n_tail))
        logits = np.concatenate([tail, head])
        shaped = check(logits, Sampling(temperature=1.0, top_p=0.8))
        assert shaped.ids.tolist() == list(range(n_tail, n_tail + kept))
        single = logits.astype(np.float32)
        check(single, Sampling(temperature=1.0, top_p=0.8))


def test_a_mass_that_reaches_top_p_within_rounding_is_enough():
    logits = np.log(np.full(10, 0.1))
    for n in range(1, 10):
        assert shape(logits, Sampling(temperature=1.0, top_p=n / 10)).ids.tolist() == list(range(n))


def test_min_p_keeps_what_meets_it_exactly():
    logits = np.log([0.2, 0.5, 0.25, 0.05])
    assert shape(logits, Sampling(temperature=1.0, top_p=1.0, min_p=0.5)).ids.tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_greedy_is_a_point_on_the_lowest_argmax(dtype):
    shaped = shape(np.array([0, 3, 3, 1], dtype=dtype), Sampling(temperature=0.0))
    assert (shaped.ids.tolist(), shaped.probs.tolist()) == ([1], [1.0])


def test_greedy_sees_differences_that_a_softmax_would_lose():
    logits = np.array([1e30, np.nextafter(1e30, 2e30)])
    assert shape(logits, Sampling(temperature=0.0)).ids.tolist() == [1]


def test_forbidden_ids_are_outside_the_support():
    logits = np.array([-math.inf, 0.0, -math.inf, 0.0], dtype=np.float32)
    for sampling in (PLAIN, Sampling(), Sampling(top_k=3), Sampling(min_p=0.1)):
        assert shape(logits, sampling).ids.tolist() == [1, 3]


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-45, 1e-30, 1e300, 1.7e308])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_temperatures_do_not_overflow(temperature, dtype):
    logits = np.array([-3e38, 10.0, 10.0, 9.5, 3.0], dtype=dtype)
    for top_p in (1.0, 0.9):
        check(logits, Sampling(temperature=temperature, top_p=top_p))


def test_a_read_only_view_with_strides_is_shaped():
    buffer = np.random.default_rng(1).normal(size=(3, 2000)).astype(np.float32)
    buffer.setflags(write=False)
    everything = Sampling(logit_bias={1: 1.0}, presence_penalty=0.5, top_k=7)
    for sampling in (Sampling(), Sampling(top_k=3), Sampling(temperature=0.0), everything):
        check(buffer[1, ::2], sampling)


def test_repetition_counts_prompt_and_answer_the_other_penalties_only_the_answer():
    logits = np.array([2.0, -2.0, 2.0, -2.0, 1.0])
    history = History(prompt=frozenset({0, 1}), generated=(2, 3, 3))
    sampling = Sampling(
        repetition_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25, temperature=1.0, top_p=1.0
    )
    adjusted = np.array([1.0, -4.0, 1.0 - 0.75, -4.0 - 1.25, 1.0])
    wanted = np.exp(adjusted) / np.exp(adjusted).sum()
    np.testing.assert_allclose(shape(logits, sampling, history).probs, wanted, rtol=1e-14)


def test_penalties_without_a_history_change_nothing():
    logits = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    penalised = Sampling(presence_penalty=1.0, repetition_penalty=1.5)
    assert shape(logits, penalised).probs.tolist() == shape(logits, Sampling()).probs.tolist()


def test_history_ids_without_a_logit_are_skipped():
    logits = np.array([1.0, 2.0])
    history = History(prompt=frozenset({-1, 2, 99}), generated=(1, 2, 50, -3))
    sampling = Sampling(repetition_penalty=2.0, presence_penalty=1.0, temperature=0.0)
    assert shape(logits, sampling, history).ids.tolist() == [0]


def test_bias_comes_before_penalties():
    history = History(generated=(0,))
    sampling = Sampling(logit_bias={0: 3.0}, repetition_penalty=2.0, temperature=1.0, top_p=1.0)
    shaped = shape(np.array([-1.0, 0.0]), sampling, history)  # (-1 + 3) / 2 = 1
    np.testing.assert_allclose(shaped.probs[0] / shaped.probs[1], math.e, rtol=1e-14)


def test_a_bias_outside_the_vocabulary_is_refused_with_id_and_size():
    with pytest.raises(InputError, match=r"logit_bias names id 4; this model's ids are 0\.\.3"):
        shape(np.zeros(4, dtype=np.float32), Sampling(logit_bias={1: 1.0, 4: 1.0}))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([0.0, math.nan, 1.0], "the logit of id 1 is nan; the model's output is not usable"),
        ([0.0, math.inf, 1.0], "the logit of id 1 is inf"),
        ([-math.inf, -math.inf], "every logit is -inf: no id is allowed"),
        ([], r"logits have shape \(0,\); one row of shape \(V,\)"),
        ([[0.0, 1.0]], r"logits have shape \(1, 2\)"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_that_is_not_usable_is_refused(logits, message, dtype):
    row = np.array(logits, dtype=dtype)
    for use in (
        lambda: shape(row, Sampling()),
        lambda: shape(row, Sampling(temperature=0.0)),
        lambda: top_logprobs(row, 1),
    ):
        with pytest.raises(BackendError, match=message):
            use()


def test_a_penalty_that_overflows_a_logit_is_refused():
    with pytest.raises(BackendError, match="the logit of id 0 is inf"):
        shape(np.array([9.0, 1.0]), Sampling(repetition_penalty=5e-324), History(generated=(0,)))


def test_logprobs_are_the_plain_log_softmax():
    logits = np.log([0.5, 0.3, 0.2]).astype(np.float32) + 50
    assert logprob(logits, 0) == pytest.approx(-0.6931, abs=1e-4)
    listed = top_logprobs(logits, 3)
    assert [token for token, _ in listed] == [0, 1, 2]
    assert [value for _, value in listed] == [logprob(logits, token) for token in range(3)]
    assert sum(math.exp(value) for _, value in listed) == pytest.approx(1, abs=1e-12)


def test_logprobs_of_a_long_row_equal_the_exact_sum():
    logits = np.random.default_rng(3).normal(0, 3, 50_000).astype(np.float32)
    total = math.log(math.fsum(math.exp(float(x)) for x in logits))
    assert logprob(logits, 123) == pytest.approx(float(logits[123]) - total, abs=1e-12)
    listed = top_logprobs(logits, 20)
    assert [token for token, _ in listed] == np.argsort(-logits, kind="stable")[:20].tolist()


def test_equal_logprobs_are_listed_by_ascending_id():
    assert [token for token, _ in top_logprobs(np.array([1.0, 2.0, 1.0, 2.0, 1.0]), 4)] == [1, 3, 0, 2]


def test_forbidden_ids_have_no_logprob_listed():
    logits = np.array([-math.inf, 0.0, -math.inf])
    assert top_logprobs(logits, 20) == [(1, 0.0)]
    assert top_logprobs(logits, 0) == []
    assert logprob(logits, 0) == -math.inf


@pytest.mark.parametrize("token", [-1, 3])
def test_a_logprob_of_a_foreign_id_is_refused(token):
    with pytest.raises(
        BackendError, match=rf"token {token} does not belong to the model; its ids are 0\.\.2"
    ):
        logprob(np.zeros(3), token)


def test_top_probability_is_that_of_the_likeliest_id():
    rng = np.random.default_rng(3)
    for scale in (0.1, 1.0, 20.0):
        logits = rng.normal(scale=scale, size=500).astype(np.float32)
        weights = np.exp(logits.astype(np.float64) - logits.max())
        assert top_probability(logits) == pytest.approx(weights.max() / weights.sum(), rel=1e-4)
    with pytest.raises(BackendError):
        top_probability(np.full(4, np.nan, dtype=np.float32))


def test_masked_row_gives_the_law_of_the_allowed_ids_alone():
    logits = np.array([1.0, 2.0, 0.5, 3.0], dtype=np.float32)
    row = shape(
        only(logits, np.array([True, False, True, False])), Sampling(top_p=1.0, temperature=1.0), History()
    )
    expected = np.exp([1.0, 0.5]) / np.exp([1.0, 0.5]).sum()
    by_id = dict(zip(row.ids.tolist(), row.probs.tolist(), strict=True))
    assert [by_id[0], by_id[2]] == pytest.approx(expected.tolist(), rel=1e-6)
    assert set(by_id) == {0, 2}
    assert logits.tolist() == [1.0, 2.0, 0.5, 3.0]


def test_mask_of_another_length_is_refused():
    with pytest.raises(BackendError, match=r"a mask of shape \(3,\) does not fit a row of shape \(4,\)"):
        only(np.zeros(4, dtype=np.float32), np.ones(3, dtype=bool))
