"""Requests of many readers over one engine: who is served, refused, cancelled, and what they are told."""

import asyncio
import threading
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.events import Finished, Started, Token
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.errors import BackendError, BusyError, InputError, PromptTooLongError
from leadout.models.conversation import Conversation
from leadout.server.batcher import Batcher
from leadout.testing import PieceVocabulary, ScriptedDrafter, TableModel

V = 11
GREEDY = Params(temperature=0.0)


def rule(tokens):
    return np.random.default_rng([tokens[-1], len(tokens) % 5]).normal(0, 2, V)


class Gated(TableModel):
    """Every pass waits until it is let through."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.begun = threading.Semaphore(0)
        self.let_through = threading.Semaphore(0)

    def forward(self, chunks):
        self.begun.release()
        assert self.let_through.acquire(timeout=30)
        return super().forward(chunks)

    def open(self):
        """Let everything through from here on."""
        self.let_through.release(1_000_000)


def model(kind=TableModel, **options):
    return kind(rule, n_vocab=V, **{"n_ctx": 96, "n_slots": 4, **options})


def engine(target=None, drafter=None, **options):
    return Engine(target or model(), drafter, schedule=FixedSchedule(3), **options)


async def answer(batcher, prompt, params, client=""):
    async with aclosing(batcher.events(prompt, params, client=client)) as events:
        return [event async for event in events]


def ids(events, index=0):
    return tuple(each.token for each in events if isinstance(each, Token) and each.index == index)


def serve(use, made=None, **options):
    """Run `use(batcher)`; the engine is closed behind it."""

    async def run():
        with made or engine() as one:
            batcher = Batcher(one, **options)
            try:
                return await asyncio.wait_for(use(batcher), 60)
            finally:
                await batcher.close(0.0)

    return asyncio.run(run())


def solo(prompt, params, **options):
    return engine(model(**options)).generate_many(prompt, params)


@pytest.mark.parametrize("n_slots", [1, 3, 8])
def test_every_reply_beside_others_is_its_solo_reply(n_slots):
    jobs = [
        ([1 + i % 4, 2, 3 + i % 3], replace(params, max_tokens=3 + 2 * i % 17), f"client {i % 3}")
        for i in range(8)
        for params in (GREEDY, Params(temperature=1.3, seed=i))
    ]

    async def use(batcher):
        return await asyncio.gather(*(answer(batcher, *job) for job in jobs))

    replies = serve(use, engine(model(n_slots=n_slots), SuffixDrafter()))
    for (prompt, params, _), events in zip(jobs, replies, strict=True):
        assert ids(events) == solo(prompt, params)[0].ids
        assert isinstance(events[0], Started)
        assert isinstance(events[-1], Finished)


def test_several_answers_to_one_prompt_come_through_one_generator():
    params = Params(temperature=1.0, seed=4, n=6, max_tokens=9)
    events = serve(lambda batcher: answer(batcher, [1, 2, 3], params))
    expected = solo([1, 2, 3], params)
    assert [ids(events, i) for i in range(6)] == [each.ids for each in expected]
    assert sum(isinstance(each, Finished) for each in events) == 6


def test_requests_share_their_passes():
    target = model(Gated)

    async def use(batcher):
        async with asyncio.TaskGroup() as group:
            for i in range(4):
                group.create_task(answer(batcher, [i, 1], replace(GREEDY, max_tokens=8)))
            await asyncio.to_thread(target.begun.acquire)
            target.open()

    serve(use, engine(target))
    assert max(len(each) for each in target.passes) == 4
    assert len(target.passes) < 20


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        ([], InputError, "the prompt is empty"),
        ([99], InputError, "the prompt has id 99"),
        ([1] * 96, PromptTooLongError, "the prompt has 96 tokens"),
        (Conversation(messages=[{"role": "user", "content": "x"}]), InputError, "chat template"),
    ],
)
def test_bad_requests_are_refused_before_their_first_event(prompt, error, message):
    async def use(batcher):
        with pytest.raises(error, match=message):
            await answer(batcher, prompt, GREEDY)
        return await answer(batcher, [1], replace(GREEDY, max_tokens=2))

    assert len(ids(serve(use))) == 2


def test_a_request_that_the_law_refuses_fails_alone():
    async def use(batcher):
        good = asyncio.create_task(answer(batcher, [1, 2], replace(GREEDY, max_tokens=30)))
        with pytest.raises(InputError, match="logit_bias names id 50"):
            await answer(batcher, [1, 2], replace(GREEDY, logit_bias={50: 1.0}))
        return await good

    assert ids(serve(use)) == solo([1, 2], replace(GREEDY, max_tokens=30))[0].ids


@pytest.mark.parametrize("after", ["prefill", "first token"])
def test_a_reader_who_leaves_ends_its_request_within_a_round(after):
    target = model(Gated, n_slots=2)
    long = replace(GREEDY, max_tokens=80)

    async def use(batcher):
        other = asyncio.create_task(answer(batcher, [5, 5], long))
        await asyncio.to_thread(target.begun.acquire)
        target.let_through.release()
        generator = batcher.events([1, 2, 3] * 4, long)
        reader = asyncio.create_task(anext(generator))
        if after == "first token":
            while not reader.done():
                target.let_through.release()
                await asyncio.sleep(0)
            await generator.aclose()
        else:
            await asyncio.to_thread(target.begun.acquire)
            while batcher.load.queued:
                target.let_through.release()
                await asyncio.sleep(0)
            reader.cancel()
            await asyncio.wait([reader])
        n_before = len(target.passes)
        target.open()
        events = await other
        mine = [fed for each in target.passes[n_before:] for fed in each if fed.slot == slot_of(target)]
        return events, mine, batcher.load

    events, mine, load = serve(use, engine(target, prefill_batch=2))
    assert ids(events) == solo([5, 5], long)[0].ids
    assert len(mine) <= 4  # what was let through already, and one round
    assert load.running <= 1


def slot_of(target):
    """The slot that did not get the other's prompt, which came first."""
    return 1 - target.passes[0][0].slot


def test_a_reader_who_leaves_the_queue_is_never_started():
    target = model(Gated, n_slots=1)

    async def use(batcher):
        first = asyncio.create_task(answer(batcher, [5, 5], replace(GREEDY, max_tokens=6)))
        await asyncio.to_thread(target.begun.acquire)
        waiting = asyncio.create_task(answer(batcher, [7, 7, 7], GREEDY))
        while not batcher.load.queued:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.wait([waiting])
        target.open()
        await first
        await answer(batcher, [6], replace(GREEDY, max_tokens=2))

    serve(use, engine(target))
    assert all(fed.tokens[0] != 7 or fed.start for each in target.passes for fed in each)


def test_a_full_queue_refuses_and_says_when_to_try_again():
    target = model(Gated, n_slots=1)

    async def use(batcher):
        running = asyncio.create_task(answer(batcher, [5], replace(GREEDY, max_tokens=2)))
        await asyncio.to_thread(target.begun.acquire)
        waiting = [asyncio.create_task(answer(batcher, [i], replace(GREEDY, max_tokens=2))) for i in range(2)]
        while batcher.load.queued < 2:
            await asyncio.sleep(0.001)
        with pytest.raises(BusyError, match="2 requests wait already and 2 may; try again in") as refused:
            await answer(batcher, [1], GREEDY)
        target.open()
        await asyncio.gather(running, *waiting)
        return refused.value.retry_after_s

    assert 1 <= serve(use, engine(target), max_queued=2) <= 60


def test_slots_go_round_between_clients():
    target = model(Gated, n_slots=1)
    order = []

    async def ask(batcher, client, i):
        await answer(batcher, [i], replace(GREEDY, max_tokens=1), client)
        order.append(client)

    async def use(batcher):
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(batcher, "first", 0))
            await asyncio.to_thread(target.begun.acquire)
            for i, client in enumerate(["greedy"] * 5 + ["modest"] * 2):
                group.create_task(ask(batcher, client, i))
                while batcher.load.queued <= i:
                    await asyncio.sleep(0.001)
            target.open()

    serve(use, engine(target))
    assert order == ["first", "greedy", "modest", "greedy", "modest", "greedy", "greedy", "greedy"]


def test_closing_lets_what_runs_finish_and_refuses_the_rest():
    target = model(Gated, n_slots=1)

    async def use(batcher):
        running = asyncio.create_task(answer(batcher, [5], replace(GREEDY, max_tokens=5)))
        await asyncio.to_thread(target.begun.acquire)
        waiting = asyncio.create_task(answer(batcher, [1], GREEDY))
        while not batcher.load.queued:
            await asyncio.sleep(0.001)
        closing = asyncio.create_task(batcher.close(30.0))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="the server is shutting down"):
            await answer(batcher, [1], GREEDY)
        target.open()
        await closing
        with pytest.raises(BusyError, match="the server is shutting down"):
            await waiting
        return await running

    assert serve(use, engine(target))[-1].reason == "length"


def test_closing_without_grace_cancels_what_runs():
    target = model(Gated, n_slots=1)

    async def use(batcher):
        running = asyncio.create_task(answer(batcher, [5], GREEDY))
        await asyncio.to_thread(target.begun.acquire)
        closing = asyncio.create_task(batcher.close(0.0))
        await asyncio.sleep(0)
        target.open()
        await closing
        return await running

    assert serve(use, engine(target))[-1].reason == "cancelled"


def test_the_engine_can_be_used_after_the_batcher_and_not_beside_it():
    one = engine()

    async def use():
        batcher = Batcher(one)
        with pytest.raises(InputError, match="this engine is busy"):
            one.generate([1], GREEDY)
        await answer(batcher, [1], replace(GREEDY, max_tokens=2))
        await batcher.close()

    asyncio.run(use())
    assert one.generate([1], replace(GREEDY, max_tokens=2)).usage.cached_tokens == 0
    assert one.generate([1, 2], replace(GREEDY, max_tokens=2)).finish_reason == "length"


def test_closing_the_engine_ends_every_request_with_an_error():
    target = model(Gated, n_slots=1)

    async def use(batcher):
        asked = [asyncio.create_task(answer(batcher, [i], GREEDY)) for i in range(3)]
        await asyncio.to_thread(target.begun.acquire)
        while batcher.load.queued < 2:
            await asyncio.sleep(0.001)
        closer = asyncio.create_task(asyncio.to_thread(one.close))
        await asyncio.sleep(0.01)
        target.open()
        await closer
        return await asyncio.gather(*asked, return_exceptions=True)

    one = engine(target)
    assert [type(each) for each in serve(use, one)] == [BackendError] * 3


def test_a_pass_that_fails_for_all_ends_only_who_ran_then():
    target = model(n_slots=2)

    async def use(batcher):
        await answer(batcher, [1], replace(GREEDY, max_tokens=2))
        target.fail_at(1, 2, 3)
        with pytest.raises(BackendError, match="failed, as it was told to"):
            await answer(batcher, [2], GREEDY)
        target.fail_at()
        return await answer(batcher, [3, 4], replace(GREEDY, max_tokens=5))

    assert ids(serve(use, engine(target))) == solo([3, 4], replace(GREEDY, max_tokens=5))[0].ids


def test_what_one_client_was_told_is_never_drafted_for_another():
    drafter = SuffixDrafter()

    async def use(batcher):
        for _ in range(2):
            await answer(batcher, [1, 2, 3], replace(GREEDY, max_tokens=30), "a")
        stranger = await answer(batcher, [9, 1, 2, 3], replace(GREEDY, max_tokens=30), "b")
        return stranger, drafter.memory.texts("b"), drafter.memory.texts("a")

    _, of_b, of_a = serve(use, engine(drafter=drafter))
    assert len(of_b) == 1
    assert len(of_a) == 2
    assert not any(text in of_b for text in of_a)


def test_a_drafter_that_fails_costs_its_request_the_drafts_and_nothing_else():
    drafter = ScriptedDrafter(lambda request: [1] * request.k, raises_at=2)
    events = serve(
        lambda batcher: answer(batcher, [1, 2], replace(GREEDY, max_tokens=9)), engine(drafter=drafter)
    )
    assert ids(events) == solo([1, 2], replace(GREEDY, max_tokens=9))[0].ids
    assert "the drafter failed: RuntimeError: propose 2 failed" in events[-1].speculation.reason


def test_load_counts_what_caches_hold():
    async def use(batcher):
        before = batcher.load
        await answer(batcher, [1, 2, 3], replace(GREEDY, max_tokens=4))
        while batcher.load.running:
            await asyncio.sleep(0.001)
        return before, batcher.load

    before, after = serve(use)
    assert (before.slots, before.running, before.queued, before.cached_tokens) == (4, 0, 0, 0)
    assert before.capacity_tokens == 4 * 96
    assert after.cached_tokens == 6


def test_a_negative_queue_is_refused():
    with engine() as one, pytest.raises(InputError, match="max_queued is -1"):
        Batcher(one, max_queued=-1)


def test_a_chat_is_written_out_by_the_models_template():
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    vocab = PieceVocabulary([b"a", b"b", *(b"%d" % i for i in range(V - 2))], chat_template=template)
    target = model(vocab=vocab)
    chat = Conversation(messages=[{"role": "user", "content": "abba"}])
    events = serve(lambda batcher: answer(batcher, chat, replace(GREEDY, max_tokens=2)), engine(target))
    assert target.passes[0][0].tokens == (0, 1, 1, 0)
    assert events[0].prompt_tokens == 4
