"""End tokens, stop strings, lengths and the context's end, wherever they fall in an accepted run."""

from dataclasses import replace

import pytest
from toys import GREEDY, engine, hashed, plain, said

from leadout.drafters.model import ModelDrafter
from leadout.engine.params import Params
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel, saying

EOS = 6


def scripted(answer):
    """A model that says `answer` after a prompt of one token."""
    return saying(lambda tokens: answer[min(len(tokens) - 1, len(answer) - 1)], 10)


def numbered(eos=EOS):
    return PieceVocabulary.numbered(10, eos=eos)


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize("at", range(7))
def test_accepted_run_stops_at_eos(k, at):
    answer = [*[4, 7, 8, 9, 5, 3][:at], EOS, 8, 9, 8, 9, 8, 9, 8, 9]
    model = TableModel(scripted(answer), n_vocab=10, vocab=numbered())
    drafter = ScriptedDrafter.answer(answer)
    events = list(engine(model, drafter, k).stream([1], replace(GREEDY, max_tokens=20, logprobs=0)))
    result = engine(
        TableModel(scripted(answer), n_vocab=10, vocab=numbered()), ScriptedDrafter.answer(answer), k
    ).generate([1], replace(GREEDY, max_tokens=20, logprobs=0))

    expected = plain(scripted(answer), [1], replace(GREEDY, max_tokens=20, logprobs=0), 10, vocab=numbered())
    assert said(result) == said(expected)
    assert result.ids == tuple(answer[:at])
    assert result.finish_reason == "stop"
    assert "".join(getattr(event, "text", "") for event in events) == "".join(f" {i}" for i in answer[:at])
    assert model.tokens(0) == (1, *answer[:at])[:-1]  # nothing of what was drafted behind the end


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("stop", [(), (" 8",)])
def test_neither_cache_holds_what_was_drafted_behind_the_end(at, stop):
    answer = [*[4, 7, 3, 9, 5, 3][:at], 8 if stop else EOS, 2, 9, 2, 9, 2, 9, 2, 9]
    target, draft = (TableModel(scripted(answer), n_vocab=10, vocab=numbered()) for _ in range(2))
    result = engine(target, ModelDrafter(draft), 5).generate([1], replace(GREEDY, max_tokens=20, stop=stop))
    context = (1, *result.ids)
    assert len(result.ids) == at + len(stop)
    assert target.tokens(0) == context[:-1]
    assert draft.tokens(0) == context[: draft.length(0)]


@pytest.mark.parametrize("budget", range(1, 21))
@pytest.mark.parametrize("stop", [(), (" 7 8",), ("9 5 3",), ("8", " 7 8 9"), ("zzz",)])
def test_counts_agree_for_every_budget_and_stop(budget, stop):
    answer = [4, 7, 1, 7, 8, 9, 5, 3, 1, 0, 2, 7, 7, 8, 1, 1, 2, 3, EOS]
    params = replace(GREEDY, max_tokens=budget, stop=stop, logprobs=1)
    expected = plain(scripted(answer), [1], params, 10, vocab=numbered())
    model = TableModel(scripted(answer), n_vocab=10, vocab=numbered())

    result = engine(model, ScriptedDrafter.answer(answer), 5).generate([1], params)

    assert said(result) == said(expected)
    assert len(result.ids) == result.usage.completion_tokens == len(result.to_json()["logprobs"])
    assert result.usage.completion_tokens <= budget
    if not stop or stop == ("zzz",):
        assert result.usage.completion_tokens == min(budget, 18)
        assert result.finish_reason == ("length" if budget <= 18 else "stop")


def test_token_with_the_stop_string_counts_and_its_text_is_cut():
    vocab = PieceVocabulary([b"a", b"bc", b"d-STOP-e", b"f"])
    model = TableModel(saying(lambda tokens: min(len(tokens) - 1, 3), 4), n_vocab=4, vocab=vocab)
    result = engine(model).generate([0], replace(GREEDY, max_tokens=9, stop=("-STOP",)))
    assert (result.ids, result.text, result.finish_reason) == ((0, 1, 2), "abcd", "stop")


def test_text_that_may_become_a_stop_string_is_held_back():
    vocab = PieceVocabulary([b"x", b"</", b"end", b">"])
    model = TableModel(
        saying(lambda tokens: (0, 1, 2, 0)[min(len(tokens) - 1, 3)], 4), n_vocab=4, vocab=vocab
    )
    events = list(engine(model).stream([0], replace(GREEDY, max_tokens=3, stop=("</end>",))))
    assert [event.text for event in events if hasattr(event, "token")] == ["x", "", ""]
    assert events[-1].text == "</end"
    assert events[-1].reason == "length"


def test_stop_string_outranks_length_on_the_same_token():
    answer = [4, 7, 8]
    result = plain(scripted(answer), [1], replace(GREEDY, max_tokens=3, stop=("8",)), 10, vocab=numbered())
    assert (result.finish_reason, result.text) == ("stop", " 4 7 ")


@pytest.mark.parametrize("length", range(20, 32))
@pytest.mark.parametrize("params", [GREEDY, Params(temperature=1.0, seed=3)])
def test_speculation_ends_with_the_context_where_plain_decoding_ends(length, params):
    prompt = [i % 9 for i in range(length)]
    params = replace(params, max_tokens=100)
    expected = plain(hashed(9), prompt, params, 9, n_ctx=32)
    model = TableModel(hashed(9), n_vocab=9, n_ctx=32)
    drafter = ScriptedDrafter.answer(expected.ids + (0,) * 9)

    result = engine(model, drafter, 5).generate(prompt, params)

    assert said(result) == said(expected)
    assert result.finish_reason == "length"
    assert len(result.ids) == 32 - length
    for (fed,) in model.passes[1:]:
        assert len(fed.tokens) - 1 <= 32 - fed.start - 1


def test_without_max_tokens_the_answer_ends_with_the_context():
    assert len(plain(hashed(9), [1, 2], GREEDY, 9, n_ctx=16).ids) == 14
