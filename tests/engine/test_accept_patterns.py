"""Whatever part of a draft is right, the answer is plain decoding's."""

from dataclasses import replace

import pytest
from toys import GREEDY, engine, hashed, plain, said

from leadout.engine.params import Params
from leadout.testing import ScriptedDrafter, TableModel, saying

PATTERNS = [(k, right) for k in range(1, 9) for right in range(k + 1)]


@pytest.mark.parametrize(("k", "right"), PATTERNS)
def test_position_dependent_rule_gives_its_ids_for_every_accept_pattern(k, right):
    rule = saying(lambda tokens: (7 * tokens[-1] + len(tokens)) % 11, 11)
    expected = (5, 4, 9, 1, 1, 2, 10, 1, 5, 1, 7, 6)
    model = TableModel(rule, n_vocab=11)
    drafter = ScriptedDrafter.partly_right(expected, right, 11)

    result = engine(model, drafter, k).generate([10], replace(GREEDY, max_tokens=12))

    assert result.ids == expected
    assert result.usage.drafted > 0
    context = (10, *expected)
    for (fed,) in model.passes:  # each pass goes on exactly where the committed text ends
        assert fed.tokens[0] == context[fed.start]
    starts = [fed.start for (fed,) in model.passes]
    assert starts == sorted(set(starts))
    assert model.tokens(0) == context[:-1]


@pytest.mark.parametrize(("k", "right"), PATTERNS)
@pytest.mark.parametrize(
    "law",
    [
        Params(temperature=0.0),
        Params(temperature=0.0, repetition_penalty=1.5, logit_bias={2: 3.0}),
        Params(temperature=1.2, top_p=0.9, seed=11),
        Params(temperature=0.9, top_k=5, frequency_penalty=0.7, presence_penalty=0.4, seed=5),
    ],
)
def test_speculation_says_what_plain_decoding_says(k, right, law):
    params = replace(law, max_tokens=20, logprobs=2)
    expected = plain(hashed(9), [1, 2, 3], params, 9)
    drafter = ScriptedDrafter.partly_right(expected.ids, right, 9)

    result = engine(TableModel(hashed(9), n_vocab=9), drafter, k).generate([1, 2, 3], params)

    assert said(result) == said(expected)
    assert result.usage.accepted <= result.usage.drafted


def test_right_drafts_need_fewer_passes_and_say_where_tokens_came_from():
    params = replace(GREEDY, max_tokens=11)
    answer = plain(hashed(9), [1], params, 9).ids
    result = engine(TableModel(hashed(9), n_vocab=9), ScriptedDrafter.answer(answer), 4).generate([1], params)

    assert result.usage.target_passes == 3  # the prompt's, and two of 4 + 1 tokens
    assert [token.origin for token in result.tokens] == ["plain"] + (["accepted"] * 4 + ["bonus"]) * 2
    assert (result.usage.drafted, result.usage.accepted) == (8, 8)
    assert result.usage.tokens_per_pass == 11 / 3


def test_wrong_drafts_cost_no_extra_pass():
    params = replace(GREEDY, max_tokens=11)
    answer = plain(hashed(9), [1], params, 9).ids
    drafter = ScriptedDrafter.partly_right(answer, 0, 9)
    result = engine(TableModel(hashed(9), n_vocab=9), drafter, 4).generate([1], params)

    assert result.usage.target_passes == 11
    assert {token.origin for token in result.tokens[1:-1]} == {"corrected"}
    assert result.usage.accepted == 0


def test_empty_proposals_are_passes_but_draft_nothing():
    result = engine(TableModel(hashed(9), n_vocab=9), ScriptedDrafter(lambda _: []), 4).generate(
        [1], replace(GREEDY, max_tokens=6)
    )
    assert (result.usage.target_passes, result.usage.drafted) == (6, 0)
    assert {token.origin for token in result.tokens} == {"plain"}


def test_proposal_longer_than_asked_for_is_cut():
    answer = plain(hashed(9), [1], replace(GREEDY, max_tokens=40), 9).ids
    eager = ScriptedDrafter(lambda request: answer[request.position : request.position + 9])
    model = TableModel(hashed(9), n_vocab=9)
    # a Proposal object is passed on as it is, so wrap the ids in one
    result = engine(model, ScriptedDrafter(lambda r: _whole(eager, r)), 2).generate(
        [1], replace(GREEDY, max_tokens=12)
    )
    assert result.ids == answer[:12]
    assert max(len(fed.tokens) for (fed,) in model.passes) == 3


def _whole(drafter, request):
    from leadout.core.values import Proposal

    return Proposal(tokens=tuple(drafter._script(request)), drafter="eager")


def test_first_pass_reads_the_prompt_and_drafts_nothing():
    model = TableModel(hashed(9), n_vocab=9)
    drafter = ScriptedDrafter.always(3)
    engine(model, drafter, 4).generate([1, 2, 3], replace(GREEDY, max_tokens=5))
    (first,) = model.passes[0]
    assert (first.tokens, first.n_logits) == ((1, 2, 3), 1)
    assert drafter.asked[0] == (0, 4, 3)  # after the first token; 4 are left, so at most 3 are drafted
