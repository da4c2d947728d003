"""What the slots do when a library fails: a real context, made to fail on command."""

import pytest
from passes import assert_same, feed, need

from leadout.errors import BackendError, RollbackError
from leadout.models.base import Chunk
from leadout.models.binding import NO_ROOM
from leadout.models.header import read_header
from leadout.models.options import GgufOptions
from leadout.models.separate import SeparateContexts
from leadout.models.slots import SlotCache


class Failing:
    """Hands everything on to a context, but for what it is told to get wrong."""

    def __init__(self, context):
        self.context = context
        self.code = None  # the next passes decode all but their last token, and answer this
        self.keeps_entries = False  # removing says it worked and does nothing
        self.refuses_to_cut = False

    @property
    def batch(self):
        return self.context.batch

    @property
    def max_rows(self):
        return self.context.max_rows

    def decode(self, n_tokens):
        if self.code is None:
            return self.context.decode(n_tokens)
        if n_tokens > 1:
            self.context.batch.wanted[:n_tokens] = 0
            self.context.decode(n_tokens - 1)
        return self.code

    def remove(self, slot, start):
        if start > 0 and self.refuses_to_cut:
            return False
        return True if start > 0 and self.keeps_entries else self.context.remove(slot, start)

    def rows(self, first, last):
        return self.context.rows(first, last)

    def copy(self, source, target, length):
        return self.context.copy(source, target, length)

    def end(self, slot):
        return self.context.end(slot)

    def save(self, slot, *, whole):
        return self.context.save(slot, whole=whole)

    def restore(self, slot, state, *, whole):
        return self.context.restore(slot, state, whole=whole)

    def close(self):
        self.context.close()


@pytest.fixture
def cache(tiny, provider):
    yield from open_cache(tiny["llama"], provider, can_cut=True)


@pytest.fixture
def recurrent(tiny):
    need("llama")
    yield from open_cache(tiny["mamba"], "llama", can_cut=False)


def open_cache(path, provider, *, can_cut):
    if provider == "ik":
        from leadout.models.binding_ik import load
    else:
        from leadout.models.binding_llama import load
    binding = load(read_header(path), GgufOptions(n_ctx=64, n_slots=2, n_threads=1, n_batch=32))
    if binding.facts.can_share:
        context = Failing(binding.open_context(n_ctx=64, n_slots=2))
    else:
        own = [binding.open_context(n_ctx=64, n_slots=1) for _ in range(2)]
        context = Failing(SeparateContexts(own, is_windowed=False))
    n_vocab = binding.facts.n_vocab
    cache = SlotCache(
        context, n_ctx=64, n_slots=2, n_vocab=n_vocab, can_cut=can_cut, last_errors=binding.last_errors
    )
    yield cache, context
    cache.close()
    binding.close()


@pytest.fixture(params=["ik", "llama", "recurrent"])
def any_cache(request, tiny):
    if request.param == "recurrent":
        need("llama")
        yield from open_cache(tiny["mamba"], "llama", can_cut=False)
    else:
        need(request.param)
        yield from open_cache(tiny["llama"], request.param, can_cut=True)


@pytest.mark.parametrize(("code", "message"), [(-3, "failed .code -3."), (NO_ROOM, "no room in the cache")])
def test_a_failed_pass_leaves_every_slot_as_it_was(any_cache, code, message):
    slots, context = any_cache
    feed(slots, 0, [3, 4, 5])
    feed(slots, 1, [6])
    context.code = code
    with pytest.raises(BackendError, match=message):
        slots.forward(
            [
                Chunk(slot=0, tokens=[7, 8, 9], n_logits=1),
                Chunk(slot=1, tokens=[10] * 40, n_logits=1),
            ]
        )
    assert (slots.length(0), slots.length(1)) == (3, 1)
    assert (context.end(0), context.end(1)) == (3, 1)
    context.code = None
    rows = feed(slots, 0, [7])
    slots.truncate(0, 0)
    assert_same(rows, feed(slots, 0, [3, 4, 5, 7]))


@pytest.mark.parametrize("fault", ["keeps_entries", "refuses_to_cut"])
def test_a_cut_that_did_not_happen_empties_the_slot_and_raises(cache, fault):
    slots, context = cache
    expected = feed(slots, 0, [3, 4, 5])
    setattr(context, fault, True)
    with pytest.raises(RollbackError, match="cutting slot 0 to 2 tokens failed; the slot is empty now"):
        slots.truncate(0, 2)
    assert (slots.length(0), context.end(0)) == (0, 0)
    assert_same(feed(slots, 0, [3, 4, 5]), expected)


def test_a_replay_that_fails_empties_the_slot_and_raises(recurrent):
    slots, context = recurrent
    feed(slots, 0, [3, 4, 5])
    feed(slots, 0, [6, 7, 8])
    context.code = -3
    with pytest.raises(RollbackError, match="decoding 1 tokens of slot 0 again failed"):
        slots.truncate(0, 4)
    assert (slots.length(0), context.end(0)) == (0, 0)


def test_a_replay_starts_from_the_state_before_the_last_wide_pass(recurrent):
    slots, context = recurrent
    expected = feed(slots, 0, [3, 4, 5, 6, 9])
    slots.truncate(0, 0)
    feed(slots, 0, [3, 4, 5])
    feed(slots, 0, [6, 7, 8])
    seen = []
    decode = context.context.decode
    context.decode = lambda n: seen.append(n) or decode(n)
    slots.truncate(0, 4)
    assert seen == [1]  # one token decoded again, not four
    assert_same(feed(slots, 0, [9]), expected)
    slots.truncate(0, 2)  # before the saved state: all over again, and right
    assert slots.length(0) == 2
    assert_same(feed(slots, 0, [5, 6, 9]), expected)
