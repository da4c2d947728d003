"""Answers that join and leave between rounds: each says what it says alone; nothing passes between them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import GREEDY, hashed

from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.events import Finished, Round, Started, Token
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule, StepSchedule
from leadout.errors import BackendError
from leadout.testing import ScriptedDrafter, TableModel

V = 7
SEEDED = Params(temperature=1.1, seed=3)


def model(seed=0, **options):
    return TableModel(hashed(V, seed, 1.5), n_vocab=V, **{"n_ctx": 48, "n_slots": 3, **options})


def engine(target, drafter=None, schedule=None, **options):
    return Engine(target, drafter, schedule=schedule or FixedSchedule(3), **options)


def run(one, *jobs):
    """The events of each (prompt, params), all in one batch."""
    with one.lease() as batch:
        answers = [batch.join(one.request(prompt, params)) for prompt, params in jobs]
        events = {answer: [] for answer in answers}
        while batch.running:
            for each in batch.step():
                assert each.error is None
                events[each.answer] += each.events
    return list(events.values())


def ids(events):
    return tuple(each.token for each in events if isinstance(each, Token))


def alone(prompt, params, index=0, seed=0, **options):
    return engine(model(seed, **options)).generate_many(prompt, params)[index].ids


DRAFTERS = {
    "none": lambda n, seed: None,
    "ngram": lambda n, seed: NgramDrafter(1, 3),
    "model": lambda n, seed: ModelDrafter(model(seed + 1, n_slots=n, n_ctx=40), prefill_batch=5),
    "noise": lambda n, seed: ScriptedDrafter(lambda r: [(r.position + i) % V for i in range(r.k)]),
    "raises": lambda n, seed: ScriptedDrafter(lambda r: [1] * r.k, raises_at=4),
    "hybrid": lambda n, seed: HybridDrafter(
        [SuffixDrafter(), NgramDrafter(1, 2)], ModelDrafter(model(seed, n_slots=n))
    ),
}

requests = st.tuples(
    st.lists(st.integers(0, V - 1), min_size=1, max_size=25),
    st.builds(
        Params,
        temperature=st.sampled_from([0.0, 0.8, 1.5]),
        seed=st.integers(0, 9),
        top_p=st.sampled_from([1.0, 0.8]),
        repetition_penalty=st.sampled_from([1.0, 1.3]),
        max_tokens=st.one_of(st.none(), st.integers(1, 25)),
        stop=st.sampled_from([(), (" 3 1",)]),
        n=st.integers(1, 3),
        speculate=st.booleans(),
    ),
    st.sampled_from(["a", "b"]),
)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    asked=st.lists(requests, min_size=1, max_size=6),
    kind=st.sampled_from(sorted(DRAFTERS)),
    seed=st.integers(0, 2),
    n_slots=st.integers(1, 4),
    rollback=st.sampled_from(["cut", "replay"]),
    shares_passes=st.booleans(),
    exact=st.booleans(),
    prefill_batch=st.integers(1, 12),
    is_stepping=st.booleans(),
)
def test_every_answer_equals_its_solo_run_whatever_joins_leaves_and_fails_beside_it(
    data, asked, kind, seed, n_slots, rollback, shares_passes, exact, prefill_batch, is_stepping
):
    target = model(seed, n_slots=n_slots, rollback=rollback, shares_passes=shares_passes)
    one = engine(
        target, DRAFTERS[kind](n_slots, seed), StepSchedule(2, 1, 5) if is_stepping else None,
        exact=exact, prefill_batch=prefill_batch,
    )  # fmt: skip
    waiting = [(at, index) for at, (_, params, _) in enumerate(asked) for index in range(params.n)]
    said, left, failed = {}, set(), set()
    with one.lease() as batch:
        names = {}
        while waiting or batch.running:
            act = data.draw(st.sampled_from(["join", "step", "step", "step", "leave", "fail"]))
            if act == "join" and waiting and batch.n_free:
                at, index = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
                prompt, params, client = asked[at]
                answer = batch.join(one.request(prompt, params, client=client), index)
                names[answer] = (at, index)
                said[at, index] = []
            elif act == "leave" and batch.running:
                answer = data.draw(st.sampled_from(batch.running))
                said[names[answer]] += batch.leave(answer)
                left.add(names[answer])
            elif act == "fail" and len(batch.running) > 1:
                target.fail_at(1)
            else:
                for each in batch.step():
                    said[names[each.answer]] += each.events
                    if each.error is not None:
                        failed.add(names[each.answer])
                target.fail_at()
            for answer in batch.running:
                session = answer.session
                assert target.tokens(session.slot) == tuple(session.context[: target.length(session.slot)])
    for (at, index), events in said.items():
        prompt, params, _ = asked[at]
        expected = alone(prompt, params, index, seed)
        if (at, index) in left | failed:
            assert ids(events) == expected[: len(ids(events))]
        else:
            assert ids(events) == expected
            assert isinstance(events[0], Started)
            assert isinstance(events[-1], Finished)


def test_a_pass_that_fails_for_several_is_tried_with_each_alone():
    target = model()
    one = engine(target, ScriptedDrafter(lambda r: [1] * r.k))
    jobs = [([i, 2], replace(GREEDY, max_tokens=9)) for i in range(3)]
    with one.lease() as batch:
        answers = [batch.join(one.request(*job)) for job in jobs]
        said = {answer: [] for answer in answers}
        for failures in [(), (1, 3), *[()] * 20]:  # the pass over all three, and the second one's own
            target.fail_at(*failures)
            for each in batch.step() if batch.running else []:
                said[each.answer] += each.events
                assert each.error is None or each.answer is answers[1]
    for at in (0, 2):
        assert ids(said[answers[at]]) == alone(*jobs[at])
    assert len(ids(said[answers[1]])) == 1


def test_an_answer_beyond_the_drafts_context_is_plain_and_leaves_those_beside_it_alone():
    long, short = ([1] * 20, replace(GREEDY, max_tokens=12)), ([1, 2, 3, 4, 5], replace(GREEDY, max_tokens=8))

    def drafting():
        draft = model(0, n_ctx=16)
        return engine(model(n_ctx=64), HybridDrafter([], ModelDrafter(draft))), draft

    one, draft = drafting()
    of_long, of_short = run(one, long, short)
    solo, _ = drafting()
    (of_short_alone,) = run(solo, short)
    for events, (prompt, params) in ((of_long, long), (of_short, short)):
        assert ids(events) == alone(prompt, params, n_ctx=64)
    rounds = [
        [each for each in events if isinstance(each, Round)] for events in (of_long, of_short, of_short_alone)
    ]
    drafted = [sum(each.drafted for each in some) for some in rounds]
    accepted = [sum(each.accepted for each in some) for some in rounds]
    assert (drafted[0], len(rounds[0])) == (0, 12)
    assert "the draft context is full (16 positions)" in of_long[-1].speculation.reason
    assert drafted[1] == drafted[2] > 0
    assert accepted[1] == accepted[2] > 0
    assert {fed.slot for each in draft.passes for fed in each} == {1}  # no dummies in the long one's


def test_unseeded_answers_beside_one_another_follow_the_law_and_differ():
    rng = np.random.default_rng(5)
    one = engine(model(n_slots=8, n_ctx=200), NgramDrafter(1, 2), generator=lambda: rng)
    params = Params(temperature=1.0, top_p=1.0, max_tokens=100)
    texts = [ids(events) for events in run(one, *[([1, 2], params)] * 8)]
    assert len(set(texts)) == 8


def test_one_pass_verifies_the_drafts_of_all_slots():
    target = model()
    drafter = ScriptedDrafter(lambda r: [1] * r.k)
    events = run(engine(target, drafter), *[([i, 2], replace(GREEDY, max_tokens=8)) for i in range(3)])
    assert max(len(each) for each in target.passes) == 3
    widths = [each.width for each in events[0] if isinstance(each, Round)]
    assert max(widths) == 3 * 4  # a pending token and three drafted ones of each


def test_slots_that_share_no_pass_have_passes_and_times_of_their_own():
    target = model(shares_passes=False)
    events = run(engine(target), *[([i, 2], replace(GREEDY, max_tokens=8)) for i in range(3)])
    assert {len(each) for each in target.passes} == {1}
    later = [each for each in events[0] if isinstance(each, Round)][1:]
    assert {each.width for each in later} == {1}
    assert all(each.waited_s > 0 for each in later)


@pytest.mark.parametrize("shares_passes", [True, False])
def test_a_long_prompt_is_read_in_pieces_between_the_rounds_of_others(shares_passes):
    target = model(n_ctx=800, shares_passes=shares_passes)
    one = engine(target, prefill_batch=40)
    with one.lease() as batch:
        batch.join(one.request([1, 2], replace(GREEDY, max_tokens=300)))
        batch.step()
        late = batch.join(one.request([3] * 400, replace(GREEDY, max_tokens=1)))
        rounds = []
        while late in batch.running:
            rounds.append([type(event) for each in batch.step() for event in each.events])
    assert 10 <= len(rounds) <= 13  # pieces of 40, or of as few as 32 where reading is slow
    assert all(Token in each for each in rounds)
    assert max(len(fed.tokens) for each in target.passes for fed in each) == 40


def test_a_short_prompt_does_not_wait_for_a_long_one():
    target = model(n_ctx=800)
    one = engine(target, prefill_batch=64)
    with one.lease() as batch:
        batch.join(one.request([3] * 600, replace(GREEDY, max_tokens=1)))
        batch.step()
        short = batch.join(one.request([4] * 20, replace(GREEDY, max_tokens=1)))
        progress = batch.step()
    assert [each.answer for each in progress] == [short]


def test_answers_that_share_a_system_prompt_read_it_once():
    target = model(n_ctx=300, n_slots=4)
    one = engine(target, prefill_batch=32)
    system = [i % V for i in range(100)]
    params = replace(GREEDY, max_tokens=3)
    prompts = [[*system, i, i, 1] for i in range(4)]
    events = run(one, *[(prompt, params) for prompt in prompts])
    assert sum(len(fed.tokens) for each in target.passes for fed in each if fed.start < 100) <= 103
    assert [each[0].cached_tokens for each in events] == [0, 100, 100, 100]
    assert [ids(each) for each in events] == [alone(prompt, params, n_ctx=300) for prompt in prompts]


def test_whoever_followed_a_reader_who_left_reads_on_from_what_is_there():
    target = model(n_ctx=300)
    one = engine(target, prefill_batch=32)
    prompt = [i % V for i in range(120)]
    params = replace(GREEDY, max_tokens=2)
    with one.lease() as batch:
        first = batch.join(one.request(prompt, params))
        second = batch.join(one.request([*prompt, 3], params))
        third = batch.join(one.request([*prompt, 4], params))
        batch.step()
        batch.step()
        batch.leave(first)
        events = {second: [], third: []}
        while batch.running:
            for each in batch.step():
                events[each.answer] += each.events
    assert events[second][0].cached_tokens == 64
    assert events[third][0].cached_tokens == 120
    assert ids(events[third]) == alone([*prompt, 4], params, n_ctx=300)


def test_a_cache_that_would_mostly_be_lost_is_copied_from_and_kept():
    target = model(n_ctx=100, n_slots=2)
    one = engine(target)
    system, long = [1, 2, 3, 4], [5, 6] * 20
    params = replace(GREEDY, max_tokens=2)
    one.generate([*system, *long], params)
    other = one.generate([*system, 0, 0], params)
    again = one.generate([*system, *long, 3], params)
    assert other.usage.cached_tokens == 4
    assert again.usage.cached_tokens >= 44


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("n_slots", [2, 3])
@pytest.mark.parametrize("n_steps", [0, 1, 2])
def test_what_was_read_for_one_client_is_read_again_for_another(n_steps, n_slots, is_over):
    one = engine(model(n_ctx=300, n_slots=n_slots), prefill_batch=32)
    prompt = [i % V for i in range(120)]
    params = replace(GREEDY, max_tokens=9)
    with one.lease() as batch:
        first = batch.join(one.request(prompt, params, client="a"))
        for _ in range(n_steps):
            batch.step()
        if is_over:
            batch.leave(first)
        other = batch.join(one.request(prompt, params, client="b"))
        events = {first: [], other: []}
        while batch.running:
            for each in batch.step():
                events[each.answer] += each.events
    assert events[other][0].cached_tokens == 0
    assert ids(events[other]) == alone(prompt, params, n_ctx=300)


@pytest.mark.parametrize("n_slots", [1, 2, 3])
def test_a_client_finds_its_own_prompt_again_and_no_other(n_slots):
    one = engine(model(n_ctx=60, n_slots=n_slots))
    prompt, params = [1, 2, 3, 4, 5], replace(GREEDY, max_tokens=2)
    cached = [one.generate(prompt, params, client=each).usage.cached_tokens for each in "aabba"]
    assert cached == [0, 4, 0, 4, 0 if n_slots == 1 else 4]


def test_a_running_state_is_copied_only_whole():
    target = model(n_ctx=100, n_slots=3, rollback="replay")
    one = engine(target)
    prompt = [1, 2, 3, 4, 5]
    params = replace(SEEDED, n=3, max_tokens=6)
    results = one.generate_many(prompt, params)
    assert [each.usage.cached_tokens for each in results] == [0, 4, 4]
    assert target.replayed == 0
    assert one.generate([1, 2, 3, 6], replace(GREEDY, max_tokens=1)).ids == alone(
        [1, 2, 3, 6], replace(GREEDY, max_tokens=1)
    )


def test_where_nothing_can_be_copied_every_answer_reads_its_prompt():
    class Uncopied(TableModel):
        info = property(lambda self: replace(self._info, copying="none"))

        def copy(self, source, target, length):
            raise AssertionError("nothing may be copied")

    target = Uncopied(hashed(V), n_vocab=V, n_slots=2)
    results = Engine(target).generate_many([1, 2, 3], replace(SEEDED, n=2, max_tokens=3))
    assert [each.usage.cached_tokens for each in results] == [0, 0]


def test_who_left_gets_its_last_events_once():
    one = engine(model())
    with one.lease() as batch:
        answer = batch.join(one.request([1, 2], GREEDY))
        events = batch.leave(answer)
        assert [type(each) for each in events] == [Started, Finished]
        assert events[1].reason == "cancelled"
        assert batch.leave(answer) == []
        assert batch.n_free == 3


def test_a_fault_in_one_answers_law_ends_that_answer_alone():
    one = engine(model())
    good = (replace(GREEDY, max_tokens=9), [1, 2])
    with one.lease() as batch:
        first = batch.join(one.request(good[1], good[0]))
        second = batch.join(one.request([3], replace(GREEDY, logit_bias={V: 1.0})))
        said, errors = {first: [], second: []}, {}
        while batch.running:
            for each in batch.step():
                said[each.answer] += each.events
                if each.error is not None:
                    errors[each.answer] = each.error
    assert list(errors) == [second]
    assert "logit_bias names id 7" in str(errors[second])
    assert ids(said[first]) == alone(good[1], good[0])


def test_time_spent_on_others_counts_as_waiting_and_reaches_the_usage():
    target = model(n_ctx=800, shares_passes=False)
    one = engine(target, prefill_batch=64)
    with one.lease() as batch:
        first = batch.join(one.request([1, 2], replace(GREEDY, max_tokens=6)))
        batch.step()
        batch.join(one.request([3] * 700, GREEDY))
        rounds = [
            event
            for _ in range(4)
            for each in batch.step()
            if each.answer is first
            for event in each.events
            if isinstance(event, Round)
        ]
    assert len(rounds) == 4
    assert all(each.waited_s > 0 for each in rounds)


def test_a_closed_batch_takes_no_step():
    one = engine(model())
    with one.lease() as batch:
        batch.join(one.request([1, 2], GREEDY))
        batch.close()
        with pytest.raises(BackendError, match="the engine was closed during this generation"):
            batch.step()
    assert batch.is_closed
