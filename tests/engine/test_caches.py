"""What caches hold after a request, whatever became of it, and what the next request makes of that."""

import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import GREEDY, engine, hashed, said

from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.engine import Engine
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.errors import BackendError
from leadout.testing import ScriptedDrafter, TableModel

SEEDED = Params(temperature=1.0, seed=9)


def model(seed=0, **options):
    return TableModel(hashed(8, seed), n_vocab=8, **options)


class Watched(FixedSchedule):
    """Notes how much it is told that slots hold, before rounds and after them."""

    def __init__(self, k):
        super().__init__(k)
        self.before, self.after = [], []

    def judge(self, slot, state):
        self.before.append(state.n_held)
        return super().judge(slot, state)

    def observe(self, slot, outcome):
        self.after.append((outcome.n_held, outcome.emitted))


def test_schedules_are_told_how_much_slots_hold():
    watched = Watched(3)
    drafting = Engine(model(n_ctx=64), ModelDrafter(model(1, n_ctx=64)), schedule=watched)
    drafting.generate([1, 2, 3, 4], replace(GREEDY, max_tokens=12))
    (_, first), *later = watched.after  # whose pass reads the prompt
    held = 4 + first - 1
    for n_held, emitted in later:
        assert n_held == held
        held += emitted
    assert watched.before == [n_held for n_held, _ in later][: len(watched.before)]
    assert len(watched.before) > 2


def test_second_turn_reads_only_what_is_new():
    target, draft = model(n_ctx=64), model(1, n_ctx=64)
    both = engine(target, ModelDrafter(draft))
    first = both.generate([1, 2, 3, 4], replace(GREEDY, max_tokens=6))
    held, draft_held = target.tokens(0), draft.tokens(0)
    assert held == (1, 2, 3, 4, *first.ids)[:-1]
    assert draft_held == held[: len(draft_held)]
    n_passes, n_draft_passes = len(target.passes), len(draft.passes)

    second = both.generate([1, 2, 3, 4, *first.ids, 5, 6], replace(GREEDY, max_tokens=6))

    assert second.usage.cached_tokens == len(held)
    assert target.passes[n_passes][0].tokens == (first.ids[-1], 5, 6)
    assert draft.passes[n_draft_passes][0].start == len(draft_held)
    cold = engine(model(n_ctx=64), ModelDrafter(model(1, n_ctx=64)))
    assert second.ids == cold.generate([1, 2, 3, 4, *first.ids, 5, 6], replace(GREEDY, max_tokens=6)).ids


def test_turn_that_drops_the_middle_reuses_the_longest_common_prefix():
    target, draft = model(n_ctx=64), model(1, n_ctx=64)
    both = engine(target, ModelDrafter(draft))
    system, thinking = [1, 2, 3, 4, 5], [6, 6, 7, 7]
    both.generate([*system, *thinking, 0, 1], replace(GREEDY, max_tokens=8))
    n_passes, n_draft_passes = len(target.passes), len(draft.passes)

    prompt = [*system, 0, 1, 2]
    second = both.generate(prompt, replace(GREEDY, max_tokens=8))
    third = both.generate(prompt, replace(GREEDY, max_tokens=8))

    assert second.usage.cached_tokens == len(system)
    assert target.passes[n_passes][0].start == draft.passes[n_draft_passes][0].start == len(system)
    assert third.usage.cached_tokens == len(prompt) - 1
    cold = engine(model(n_ctx=64)).generate(prompt, replace(GREEDY, max_tokens=8))
    assert second.ids == third.ids == cold.ids


def test_slot_with_the_longest_prefix_is_taken_and_of_equals_the_one_unused_longest():
    target = model(n_slots=3)
    one = engine(target)
    for prompt in ([1, 1, 1], [2, 2, 2], [3, 3, 3]):
        one.generate(prompt, replace(GREEDY, max_tokens=2))
    slots = [passes[0].slot for passes in target.passes[::2]]
    assert sorted(slots) == [0, 1, 2]
    assert one.generate([2, 2, 2, 5], replace(GREEDY, max_tokens=2)).usage.cached_tokens == 3
    assert target.passes[-1][0].slot == slots[1]
    one.generate([7, 7], replace(GREEDY, max_tokens=1))
    assert target.passes[-1][0].slot == slots[0]


def test_closing_the_stream_leaves_a_committed_prefix_and_a_usable_engine():
    target = model()
    drafter = ScriptedDrafter.always(3)
    one = engine(target, drafter)
    stream = one.stream([1, 2], replace(GREEDY, max_tokens=30))
    seen = [next(stream) for _ in range(7)]
    stream.close()
    answer = [event.token for event in seen if hasattr(event, "token")]
    held = target.tokens(0)
    assert held[:2] == (1, 2)
    assert list(held[2:])[: len(answer)] == answer[: len(held) - 2]
    assert drafter.ended == [0]
    whole = engine(model()).generate([1, 2], replace(GREEDY, max_tokens=30))
    assert one.generate([1, 2], replace(GREEDY, max_tokens=30)).ids == whole.ids


def test_cancel_ends_the_answer_after_the_running_pass():
    target = model()
    one = engine(target, ScriptedDrafter.always(3))
    events = []
    for event in one.stream([1, 2], replace(GREEDY, max_tokens=30)):
        events.append(event)
        if len(events) == 5:
            one.cancel()
    assert events[-1].reason == "cancelled"
    assert len(target.passes) < 30
    assert one.generate([1, 2], replace(GREEDY, max_tokens=3)).finish_reason == "length"


def test_cancel_while_the_prompt_is_read_ends_the_request():
    one = None

    def rule(tokens):
        one.cancel()
        return [0.0] * 8

    target = TableModel(rule, n_vocab=8)
    one = engine(target, prefill_batch=4)
    result = one.generate([1] * 20, replace(GREEDY, max_tokens=5))
    assert (result.finish_reason, len(result.ids)) == ("cancelled", 1)


def test_long_prompts_are_read_in_pieces_without_logits():
    target = model()
    engine(target, prefill_batch=4).generate([1, 2, 3, 4, 5, 6, 7, 0, 1, 2], replace(GREEDY, max_tokens=1))
    assert [(len(fed.tokens), fed.n_logits) for (fed,) in target.passes] == [(4, 0), (4, 0), (2, 1)]


@pytest.mark.parametrize("fail_at", range(3, 7))
def test_draft_cache_is_cut_when_the_target_fails_after_a_proposal(fail_at):
    target, draft = model(), model(1)
    one = engine(target, ModelDrafter(draft))
    target.fail_at(fail_at)
    with pytest.raises(BackendError, match=f"forward {fail_at} failed"):
        one.generate([1, 2, 3], replace(GREEDY, max_tokens=14))
    whole = (1, 2, 3, *engine(model()).generate([1, 2, 3], replace(GREEDY, max_tokens=14)).ids)
    assert draft.length(0) > 3
    assert draft.tokens(0) == whole[: draft.length(0)]


@settings(max_examples=80, deadline=None)
@given(
    fail_at=st.integers(1, 12),
    draft_fails_at=st.integers(1, 12),
    drafter=st.sampled_from(["none", "ngram", "model", "raises"]),
    seed=st.integers(0, 5),
    params=st.sampled_from([GREEDY, SEEDED]),
)
def test_request_after_a_failure_equals_a_fresh_engines(fail_at, draft_fails_at, drafter, seed, params):
    target, draft = model(seed), model(seed + 1)
    params = replace(params, max_tokens=14)
    drafters = {
        "none": lambda: None,
        "ngram": lambda: NgramDrafter(1, 3),
        "model": lambda: ModelDrafter(draft),
        "raises": lambda: ScriptedDrafter(lambda r: [3] * r.k, raises_at=draft_fails_at),
    }
    drafting = drafters[drafter]()
    one = engine(target, drafting, prefill_batch=3)
    target.fail_at(fail_at)
    draft.fail_at(draft_fails_at)
    committed = [1, 2, 3, 4, 5]
    try:
        for event in one.stream(committed, params):
            if hasattr(event, "token"):
                committed.append(event.token)
    except (BackendError, RuntimeError):
        pass
    whole = (1, 2, 3, 4, 5, *engine(model(seed)).generate([1, 2, 3, 4, 5], params).ids)
    assert tuple(committed) == whole[: len(committed)]
    assert target.tokens(0) == whole[: target.length(0)]
    assert draft.tokens(0) == whole[: draft.length(0)]

    target.fail_at()
    if isinstance(drafting, ScriptedDrafter):
        drafting.raises_at = None
    prompt = [*whole[:9], 2]
    after = one.generate(prompt, params)
    fresh = engine(model(seed), prefill_batch=3).generate(prompt, params)
    assert (after.ids, after.text, after.finish_reason) == (fresh.ids, fresh.text, fresh.finish_reason)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 25), k=st.integers(0, 6), right=st.integers(0, 6), seed=st.integers(0, 3))
def test_request_after_a_closed_stream_equals_a_fresh_engines(cut, k, right, seed):
    params = replace(SEEDED, max_tokens=16, logprobs=1)
    answer = engine(model(seed)).generate([1, 2, 3], params).ids
    target, draft = model(seed), model(seed)
    one = engine(
        target, ModelDrafter(draft) if right == 6 else ScriptedDrafter.partly_right(answer, right, 8), k
    )
    stream = one.stream([1, 2, 3], params)
    for _ in range(cut):
        next(stream, None)
    stream.close()
    whole = (1, 2, 3, *answer)
    assert target.tokens(0) == whole[: target.length(0)]
    assert draft.tokens(0) == whole[: draft.length(0)]
    again, fresh = one.generate([1, 2, 3], params), engine(model(seed)).generate([1, 2, 3], params)
    assert said(again)[:4] == said(fresh)[:4]


@pytest.mark.parametrize("close", [True, False])
def test_closing_the_engine_ends_an_open_stream_and_frees_the_models(close):
    target, draft = model(), model(1)
    one = engine(target, ModelDrafter(draft))
    stream = one.stream([1, 2], replace(GREEDY, max_tokens=9))
    next(stream)
    one.close()
    one.close()
    assert target.closed
    assert draft.closed
    if close:
        stream.close()
    else:
        with pytest.raises(BackendError, match="the engine was closed during this generation"):
            list(stream)


def test_closing_the_engine_frees_the_models_although_the_rest_fails():
    class Stubborn(FixedSchedule):
        def close(self):
            raise RuntimeError("the disk is full")

    target, draft = model(), model(1)
    one = Engine(target, ModelDrafter(draft), schedule=Stubborn(2))
    with pytest.raises(RuntimeError, match="the disk is full"):
        one.close()
    assert target.closed
    assert draft.closed


def test_a_failing_generator_costs_no_slot():
    def failing():
        raise RuntimeError("no entropy")

    one = Engine(model(), generator=failing)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="no entropy"):
            one.generate([1, 2], Params(max_tokens=2))


def test_closing_from_another_thread_waits_for_the_pass_and_ends_the_generation():
    passing, go = threading.Event(), threading.Event()

    class Slow(TableModel):
        def forward(self, chunks):
            passing.set()
            assert go.wait(30)
            assert not self.closed
            return super().forward(chunks)

    one = Engine(Slow(hashed(8), n_vocab=8, n_ctx=64, n_slots=1))
    endings = []

    def generate():
        try:
            endings.append(list(one.stream([1, 2], GREEDY))[-1].reason)
        except BackendError as error:
            endings.append(str(error))

    reader = threading.Thread(target=generate)
    reader.start()
    assert passing.wait(30)
    closer = threading.Thread(target=one.close)
    closer.start()
    go.set()
    closer.join(30)
    reader.join(30)
    assert not reader.is_alive()
    assert not closer.is_alive()
    assert one.target.closed
    assert endings[0] in ("cancelled", "the engine was closed during this generation")
