"""What a user can ask for wrongly, and what the engine says."""

import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from toys import GREEDY, engine, hashed

import leadout
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.result import speculation_of
from leadout.engine.schedule import FixedSchedule, StepSchedule
from leadout.errors import BackendError, InputError, PromptTooLongError
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel, constant, saying

SHORT = replace(GREEDY, max_tokens=3)


def one(**options):
    return engine(TableModel(hashed(8), n_vocab=8, **options))


def test_prompt_without_room_for_a_token_is_refused_with_both_numbers():
    with pytest.raises(
        PromptTooLongError, match="the prompt has 16 tokens; a context of 16 takes 15 at most"
    ):
        one(n_ctx=16).generate([1] * 16, SHORT)
    assert len(one(n_ctx=16).generate([1] * 15, SHORT).ids) == 1


def test_empty_prompt_is_refused_where_no_token_begins_a_text():
    with pytest.raises(InputError, match="the prompt is empty"):
        one().generate([], SHORT)
    with pytest.raises(InputError, match="the prompt is empty"):
        one().generate("", SHORT)


def test_empty_text_is_the_beginning_token_where_there_is_one():
    vocab = PieceVocabulary([b"<s>", b"a"], bos=0, adds_bos=True)
    model = TableModel(constant([0.0, 1.0]), n_vocab=2, vocab=vocab)
    assert engine(model).generate("", SHORT).usage.prompt_tokens == 1
    assert model.tokens(0)[0] == 0


@pytest.mark.parametrize(
    ("adds_bos", "text", "ids"),
    [(True, "aa", (0, 1, 1)), (True, "<s>aa", (0, 1, 1)), (False, "aa", (1, 1)), (False, "<s>aa", (0, 1, 1))],
)
def test_beginning_token_stands_once_where_the_model_wants_it(adds_bos, text, ids):
    vocab = PieceVocabulary([b"", b"a"], bos=0, adds_bos=adds_bos, markers=[("<s>", 0)])
    model = TableModel(constant([0.0, 1.0]), n_vocab=2, vocab=vocab)
    engine(model).generate(text, SHORT)
    assert model.passes[0][0].tokens == ids


@pytest.mark.parametrize("token", [-1, 8])
def test_prompt_ids_outside_the_vocabulary_are_refused_by_name(token):
    with pytest.raises(InputError, match=rf"the prompt has id {token}; ids of table are 0\.\.7"):
        one().generate([1, token], SHORT)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ([1, True], "has id True; ids are whole numbers"),
        ([1.5, 2.5], r"has id 1\.5; ids are whole numbers"),
        (["a"], "has id 'a'; ids are whole numbers"),
        ([[1], [2]], r"has id \[1\]; ids are whole numbers"),
        (np.ones((2, 2), dtype=int), r"has id \[1, 1\]; ids are whole numbers"),
        (b"abc", "is b'abc'; it must be text or a sequence of token ids"),
        (None, "is None; it must be text"),
        (5, "is 5; it must be text"),
        ({1, 2}, r"is \{1, 2\}; it must be text"),
    ],
)
def test_a_prompt_that_is_neither_text_nor_ids_is_refused(prompt, said):
    with pytest.raises(InputError, match=f"the prompt {said}"):
        one().generate(prompt, SHORT)


def test_numpy_ids_are_ids():
    ids = np.array([1, 2], dtype=np.int32)
    assert one().generate(ids, SHORT).ids == one().generate(list(ids), SHORT).ids
    assert one().generate(list(ids), SHORT).ids == one().generate([1, 2], SHORT).ids


def test_second_generation_at_once_is_refused_and_the_first_goes_on():
    busy = one()
    stream = busy.stream([1, 2], SHORT)
    next(stream)
    with pytest.raises(InputError, match="this engine is busy with another generation"):
        busy.generate([1], SHORT)
    assert list(stream)[-1].reason == "length"
    assert busy.generate([1], SHORT).finish_reason == "length"


def test_generation_from_another_thread_is_refused_too():
    busy, errors = one(), []
    stream = busy.stream([1, 2], SHORT)
    next(stream)

    def other():
        try:
            busy.generate([1], SHORT)
        except InputError as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(errors) == 1
    stream.close()


def test_stream_that_was_never_started_holds_nothing():
    busy = one()
    busy.stream([1, 2], SHORT)
    assert busy.generate([1], SHORT).finish_reason == "length"


def test_closed_engine_refuses_requests():
    closed = one()
    with closed:
        pass
    with pytest.raises(InputError, match="this engine is closed"):
        closed.generate([1], SHORT)


def test_bias_on_an_id_that_does_not_exist_is_refused_and_the_engine_goes_on():
    target = one()
    with pytest.raises(InputError, match="logit_bias names id 8"):
        target.generate([1], replace(SHORT, logit_bias={8: 1.0}))
    assert target.generate([1], SHORT).finish_reason == "length"


@pytest.mark.parametrize(
    "params", [SHORT, replace(SHORT, repetition_penalty=1.2), Params(temperature=1.0, seed=1)]
)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_are_an_error_not_a_text(bad, params):
    row = [bad] * 3 if bad < 0 else [0.0, bad, 1.0]
    with pytest.raises(BackendError, match=r"not usable|every logit is -inf"):
        engine(TableModel(constant(row), n_vocab=3)).generate([0], params)


def test_prefill_batch_below_one_is_refused():
    with pytest.raises(InputError, match="prefill_batch is 0; it must be at least 1"):
        Engine(TableModel(hashed(8), n_vocab=8), prefill_batch=0)


@pytest.mark.parametrize(
    ("drafter", "params", "enabled", "reason"),
    [
        (None, SHORT, False, "off: no draft was asked for"),
        (
            NgramDrafter(),
            SHORT,
            True,
            "on: draft ngram, fixed k=4; nothing was drafted: ngram found nothing worth drafting",
        ),
        (NgramDrafter(), replace(SHORT, speculate=False), False, "off: the request asked for plain decoding"),
    ],
)
def test_every_result_says_whether_speculation_was_on_and_why(drafter, params, enabled, reason):
    result = engine(TableModel(hashed(8), n_vocab=8), drafter).generate([1], params)
    assert (result.speculation.enabled, result.speculation.reason) == (enabled, reason)
    assert result.speculation.drafter == ("none" if drafter is None else "ngram")


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        (SHORT, "greedy"),
        (Params(seed=1, max_tokens=1), "coupled"),
        (Params(max_tokens=1), "block"),
        (Params(max_tokens=1, verification="token"), "token"),
    ],
)
def test_every_result_names_its_verification_rule(params, rule):
    assert one().generate([1], params).speculation.verification == rule


@pytest.mark.parametrize(
    ("script", "n", "why"),
    [
        (lambda _: [], 9, "; nothing was drafted: scripted found nothing worth drafting"),
        (lambda _: [1], 2, "; nothing was drafted: it ended before the first draft"),
        (lambda _: [1], 3, ""),
    ],
)
def test_an_answer_without_a_draft_says_why(script, n, why):
    result = engine(TableModel(hashed(8), n_vocab=8), ScriptedDrafter(script)).generate(
        [1], replace(GREEDY, max_tokens=n)
    )
    assert result.speculation.enabled
    assert result.speculation.reason == "on: draft scripted, fixed k=4" + why


def test_of_several_answers_one_that_was_drafted_for_speaks():
    drafter = ScriptedDrafter(lambda request: [] if request.slot == 0 else [1])
    target = TableModel(hashed(8), n_vocab=8, n_slots=2)
    results = engine(target, drafter).generate_many([1], Params(seed=1, max_tokens=9, n=2))
    assert [result.usage.drafted > 0 for result in results] == [False, True]
    assert speculation_of(results).reason == "on: draft scripted, fixed k=4"


def test_blocked_drafter_is_not_asked_and_its_reason_is_reported():
    drafter = ScriptedDrafter.always(1)
    drafter.why_blocked = "it is Sunday"
    result = engine(TableModel(hashed(8), n_vocab=8), drafter).generate([1], SHORT)
    assert drafter.asked == []
    assert drafter.ended == [0]
    assert result.speculation.reason == "off: it is Sunday"


def test_step_schedule_follows_acceptance():
    answer = [1, 2, 3, 4, 5, 6, 7, 0] * 6
    drafter = ScriptedDrafter.answer(answer)
    target = TableModel(saying(lambda tokens: (tokens[-1] + 1) % 8, 8), n_vocab=8)
    Engine(target, drafter, schedule=StepSchedule(2, 1, 4)).generate([0], replace(GREEDY, max_tokens=30))
    assert [k for _, _, k in drafter.asked][:4] == [2, 3, 4, 4]
    wrong = ScriptedDrafter.always(9 % 8)
    target = TableModel(saying(lambda _: 0, 8), n_vocab=8)
    Engine(target, wrong, schedule=StepSchedule(3, 1, 4)).generate([0], replace(GREEDY, max_tokens=9))
    assert [k for _, _, k in wrong.asked] == [3, 2, 1, 1, 1, 1, 1]


def test_schedules_name_themselves():
    assert FixedSchedule(3).name == "fixed k=3"
    assert StepSchedule(2, 1, 4).name == "step k=1..4"


def test_drafting_nothing_by_schedule_is_plain_decoding():
    drafter = ScriptedDrafter.always(1)
    result = engine(TableModel(hashed(8), n_vocab=8), drafter, 0).generate([1], SHORT)
    assert (result.usage.drafted, drafter.asked) == (0, [])
    assert not result.speculation.enabled
    assert result.speculation.reason == "off: nothing may be drafted, as k is 0"


@pytest.mark.parametrize("ends", [(0, 0, 0), (0, 0, 8), (1, 0, 8)])
def test_step_schedule_that_could_stay_at_nothing_is_refused(ends):
    with pytest.raises(InputError, match=r"(start|low) is 0; it must be a whole number in 1\.\.64"):
        StepSchedule(*ends)


def test_step_schedule_may_start_anywhere():
    assert [StepSchedule.from_k(k).name for k in (1, 8, 64)] == ["step k=1..8", "step k=1..8", "step k=1..64"]
    assert StepSchedule.from_k(20).longest == 20
    with pytest.raises(InputError, match=r"k is 65; it must be a whole number in 1\.\.64"):
        StepSchedule.from_k(65)


@pytest.mark.parametrize("params", [None, {}, {"temperature": 0}, Params])
def test_params_of_another_kind_are_refused(params):
    asked = one()
    for ask in (asked.generate, asked.generate_many, asked.stream):
        with pytest.raises(InputError, match=r"params is .*; it must be a Params"):
            ask([1], params)


def test_public_names_come_from_leadout():
    for name in leadout.__all__:
        assert getattr(leadout, name) is not None
    assert set(leadout.__all__) <= set(dir(leadout))
    with pytest.raises(AttributeError, match="module 'leadout' has no attribute 'nothing'"):
        leadout.nothing  # noqa: B018


def test_import_of_leadout_is_light():
    code = "import leadout, sys; print(sorted({'numpy', 'jinja2', 'rich', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
