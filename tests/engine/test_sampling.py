"""Seeds, and the law of unseeded output."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare
from toys import engine, hashed, plain

from leadout.core.values import Distribution
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.params import Params
from leadout.testing import ScriptedDrafter, TableModel, constant

SEEDED = Params(temperature=1.0, top_p=1.0, seed=42, max_tokens=24)


def random_row(tokens):
    probs = np.random.default_rng([len(tokens), *tokens[-2:]]).dirichlet(np.ones(8))
    return Distribution(ids=np.arange(8), probs=probs)


def drafters():
    yield None
    yield NgramDrafter(1, 3)
    yield ModelDrafter(TableModel(hashed(8, 5), n_vocab=8))
    yield ScriptedDrafter.always(2)
    yield ScriptedDrafter.drawn(random_row)


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_seeded_text_is_the_same_with_any_drafter_and_draft_length(k):
    expected = plain(hashed(8), [1, 2], SEEDED, 8).ids
    for drafter in drafters():
        assert engine(TableModel(hashed(8), n_vocab=8), drafter, k).generate([1, 2], SEEDED).ids == expected


def test_seed_decides_the_text_and_unseeded_requests_differ():
    one = engine(TableModel(hashed(8, spread=0.3), n_vocab=8), NgramDrafter(1, 3))
    assert one.generate([1], SEEDED).ids == one.generate([1], SEEDED).ids
    assert one.generate([1], SEEDED).ids != one.generate([1], replace(SEEDED, seed=43)).ids
    unseeded = replace(SEEDED, seed=None)
    assert len({one.generate([1], unseeded).ids for _ in range(20)}) > 1


def test_generation_neither_reads_nor_moves_the_global_random_state():
    one = engine(TableModel(hashed(8), n_vocab=8), ScriptedDrafter.drawn(random_row))
    unseeded, runs = replace(SEEDED, seed=None, max_tokens=40), []
    for _ in range(2):
        np.random.seed(1)
        runs.append(one.generate([1], unseeded).ids)
        moved = np.random.random()
        np.random.seed(1)
        assert moved == np.random.random()
    assert runs[0] != runs[1]


@pytest.mark.parametrize("verification", ["auto", "token"])
def test_one_hot_drafts_leave_the_law_and_are_accepted_as_often_as_the_target_says(verification):
    model = TableModel(constant([2.0, 1.5, 1.0, 0.5]), n_vocab=4, n_ctx=50_000)
    generator = np.random.default_rng(7)
    one = engine(model, ScriptedDrafter.always(0), 1, generator=lambda: generator)
    params = Params(temperature=1.0, top_p=1.0, max_tokens=4_000, verification=verification)
    runs = [one.generate([0], params) for _ in range(10)]
    counts = np.bincount([token for run in runs for token in run.ids], minlength=4)
    law = np.exp([2.0, 1.5, 1.0, 0.5]) / np.exp([2.0, 1.5, 1.0, 0.5]).sum()
    assert counts.sum() == 40_000
    assert np.abs(counts / 40_000 - law).max() < 0.01
    assert chisquare(counts, law * 40_000).pvalue > 0.001
    drafted, accepted = (sum(getattr(run.usage, name) for run in runs) for name in ("drafted", "accepted"))
    assert accepted / drafted == pytest.approx(0.4551, abs=0.01)


def law_of(rule, prompt, n_vocab, length):
    """Exact probability of every answer of `length` tokens."""
    law = {}
    for answer in product(range(n_vocab), repeat=length):
        p, context = 1.0, list(prompt)
        for token in answer:
            logits = np.asarray(rule(tuple(context)), dtype=np.float32).astype(np.float64)
            weights = np.exp(logits - logits.max())
            p *= weights[token] / weights.sum()
            context.append(token)
        law[answer] = p
    return law


@pytest.mark.parametrize("verification", ["block", "token"])
@pytest.mark.parametrize("kind", ["drawn", "model", "ngram"])
def test_unseeded_answers_follow_the_targets_law_over_whole_prefixes(verification, kind):
    rule = hashed(3, seed=4, spread=1.0)
    made = {
        "drawn": lambda: ScriptedDrafter.drawn(three_row),
        "model": lambda: ModelDrafter(TableModel(hashed(3, seed=8, spread=1.0), n_vocab=3)),
        "ngram": lambda: NgramDrafter(1, 2),
    }
    generator = np.random.default_rng(11)
    one = engine(TableModel(rule, n_vocab=3), made[kind](), 3, generator=lambda: generator)
    params = Params(temperature=1.0, top_p=1.0, max_tokens=4, verification=verification)
    n = 6_000
    law = law_of(rule, [0, 1, 0, 1], 3, 4)
    counts = dict.fromkeys(law, 0)
    drafted = 0
    for _ in range(n):
        result = one.generate([0, 1, 0, 1], params)
        counts[result.ids] += 1
        drafted += result.usage.drafted
    assert drafted > n / 2
    observed, expected = np.array([counts[a] for a in law]), n * np.array(list(law.values()))
    rare = expected < 5
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    assert chisquare(observed, expected).pvalue > 0.001


def three_row(tokens):
    probs = np.random.default_rng([3, len(tokens), tokens[-1]]).dirichlet(np.ones(3))
    return Distribution(ids=np.arange(3), probs=probs)


def test_min_p_and_bias_hold_for_drafted_tokens_too():
    model = TableModel(constant(np.log([0.5, 0.3, 0.15, 0.05])), n_vocab=4, n_ctx=20_000)
    generator = np.random.default_rng(3)
    one = engine(model, ScriptedDrafter.always(2), 3, generator=lambda: generator)
    base = Params(temperature=1.0, top_p=1.0, max_tokens=5_000)
    for params in (replace(base, min_p=0.4), replace(base, logit_bias={2: -100.0}, top_k=2)):
        counts = np.bincount([*one.generate([0], params).ids, *one.generate([0], params).ids], minlength=4)
        assert counts[2] == counts[3] == 0
        assert counts[0] / 10_000 == pytest.approx(0.625, abs=0.015)
