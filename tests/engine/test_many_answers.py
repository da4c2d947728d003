"""Several answers to one prompt, together or in turn."""

from dataclasses import replace

import pytest
from toys import GREEDY, engine, hashed

from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.params import Params
from leadout.errors import InputError
from leadout.testing import TableModel

SEEDED = Params(temperature=1.0, seed=4, max_tokens=12, n=4)
PROMPT = [1, 2, 3, 4, 5, 6]


def answers(n_slots, drafter=None, params=SEEDED, **options):
    target = TableModel(hashed(8), n_vocab=8, n_slots=n_slots)
    results = engine(target, drafter, **options).generate_many(PROMPT, params)
    return target, results


@pytest.mark.parametrize("n_slots", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kind", ["none", "ngram", "model"])
def test_texts_are_the_same_with_any_number_of_slots(n_slots, kind):
    drafters = {
        "none": lambda: None,
        "ngram": lambda: NgramDrafter(1, 3),
        "model": lambda: ModelDrafter(TableModel(hashed(8, 1), n_vocab=8, n_slots=n_slots)),
    }
    expected = [result.ids for result in answers(1)[1]]
    _, results = answers(n_slots, drafters[kind]())
    assert [result.ids for result in results] == expected
    assert [result.index for result in results] == [0, 1, 2, 3]
    assert len(set(expected)) == 4


def test_first_answer_of_several_is_the_answer_alone():
    alone = engine(TableModel(hashed(8), n_vocab=8)).generate(PROMPT, replace(SEEDED, n=1))
    assert answers(4)[1][0].ids == alone.ids


@pytest.mark.parametrize("n_slots", [1, 2, 4])
def test_prompt_is_read_once(n_slots):
    target, results = answers(n_slots)
    fed = [fed for each in target.passes for fed in each if fed.start < len(PROMPT) - 1]
    assert sum(len(each.tokens) for each in fed) <= len(PROMPT)
    assert [result.usage.cached_tokens for result in results] == [0, *[len(PROMPT) - 1] * 3]


def test_a_draft_model_reads_the_prompt_of_several_answers_once():
    prompt = [i % 7 for i in range(60)]
    draft = TableModel(hashed(8, 1), n_vocab=8, n_slots=4)
    target = TableModel(hashed(8), n_vocab=8, n_slots=4)
    one = engine(target, ModelDrafter(draft))
    results = one.generate_many(prompt, SEEDED)
    read = [fed for each in draft.passes for fed in each if fed.start < 59]
    assert sum(min(59 - fed.start, len(fed.tokens)) for fed in read) == 59
    assert [each.ids for each in results] == [
        each.ids for each in engine(TableModel(hashed(8), n_vocab=8, n_slots=4)).generate_many(prompt, SEEDED)
    ]


def test_answers_together_share_their_passes():
    target, results = answers(4, params=replace(SEEDED, stop=()))
    assert max(len(each) for each in target.passes) == 4
    assert len(target.passes) == 1 + max(result.usage.target_passes for result in results)


def test_answers_of_exact_mode_go_one_slot_a_pass():
    target, results = answers(4, exact=True)
    assert {len(each) for each in target.passes} == {1}
    assert [result.ids for result in results] == [result.ids for result in answers(1)[1]]


@pytest.mark.parametrize("rollback", ["replay", "none"])
def test_answers_of_a_running_state_equal_those_of_a_cache(rollback):
    expected = [result.ids for result in answers(1)[1]]
    for n_slots in (1, 2, 4):
        target = TableModel(hashed(8), n_vocab=8, n_slots=n_slots, rollback=rollback)
        assert [r.ids for r in engine(target).generate_many(PROMPT, SEEDED)] == expected


def test_generate_refuses_several_answers():
    with pytest.raises(InputError, match="n is 4; use generate_many"):
        engine(TableModel(hashed(8), n_vocab=8)).generate(PROMPT, SEEDED)


def test_unseeded_answers_are_independent():
    results = answers(4, params=replace(SEEDED, seed=None, max_tokens=30))[1]
    assert len({result.ids for result in results}) == 4


def test_greedy_answers_are_all_the_same():
    assert len({r.ids for r in answers(2, params=replace(GREEDY, n=4, max_tokens=6))[1]}) == 1
