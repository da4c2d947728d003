"""Slots, chunks and roll-back on tiny models, with both libraries."""

import numpy as np
import pytest
from passes import assert_same, feed, fresh, text_of

from leadout.errors import BackendError
from leadout.models.base import Chunk


def test_logits_are_of_the_rows_asked_for(load):
    model = load(n_slots=2)
    text = text_of(model, 20)
    every = feed(model, 0, text, n_logits=20)
    none, last = model.forward(
        [
            Chunk(slot=1, tokens=text[:10], n_logits=0),
            Chunk(slot=0, tokens=text[:3], n_logits=2),
        ]
    )
    assert every.shape == (20, model.info.n_vocab)
    assert every.dtype == np.float32
    assert none.shape == (0, model.info.n_vocab)
    assert last.shape == (2, model.info.n_vocab)
    assert (model.length(0), model.length(1)) == (23, 10)


def test_chunked_prefill_equals_one_pass(load):
    model = load()
    text = text_of(model, 60)
    whole = fresh(model, text, n_logits=5)
    model.truncate(0, 0)
    for start in (0, 1, 20, 33):
        stop = {0: 1, 1: 20, 20: 33, 33: 60}[start]
        rows = feed(model, 0, text[start:stop], n_logits=min(5, stop - start))
    assert_same(rows, whole)


def test_chunks_longer_than_a_batch_are_split(load):
    model, small = load(), load(n_batch=7)
    text = text_of(model, 40)
    assert_same(fresh(small, text, n_logits=12), fresh(model, text, n_logits=12))


def test_more_rows_than_the_library_gives_at_once(load):
    model = load(n_ctx=256)
    text = text_of(model, 200)
    every = fresh(model, text, n_logits=200)
    assert every.shape[0] == 200
    assert_same(fresh(model, text[:150], n_logits=3), every[147:150])


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3", "mamba"])
def test_forward_after_truncate_equals_fresh(load, architecture):
    model = load(architecture)
    text, other = text_of(model, 60), text_of(model, 60, seed=1)
    expected = fresh(model, text[:40] + other[:10], n_logits=10)
    model.truncate(0, 0)
    feed(model, 0, text[:35])
    feed(model, 0, text[35:60])
    model.truncate(0, 40)
    assert model.length(0) == 40
    assert_same(feed(model, 0, other[:10], n_logits=10), expected)


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "mamba"])
def test_slots_in_one_pass_equal_each_alone(load, architecture):
    model = load(architecture, n_slots=3)
    a, b = text_of(model, 50), text_of(model, 50, seed=1)
    alone_a, alone_b = fresh(model, a, n_logits=2), fresh(model, b[:33], n_logits=3)
    model.truncate(0, 0)
    model.forward([Chunk(slot=2, tokens=a[:30], n_logits=0), Chunk(slot=1, tokens=b[:9], n_logits=0)])
    rows_b, rows_a = model.forward(
        [
            Chunk(slot=1, tokens=b[9:33], n_logits=3),
            Chunk(slot=2, tokens=a[30:], n_logits=2),
        ]
    )
    assert_same(rows_a, alone_a)
    assert_same(rows_b, alone_b)


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "mamba"])
@pytest.mark.parametrize("exact", [False, True])
def test_copy_equals_decoding_again(load, architecture, exact):
    model = load(architecture, n_slots=2, exact=exact)
    text, other = text_of(model, 50), text_of(model, 50, seed=1)
    expected = fresh(model, text[:30] + other[:5], n_logits=5)
    feed(model, 1, other)
    model.truncate(0, 0)
    feed(model, 0, text)
    model.copy(0, 1, 30)
    assert (model.length(0), model.length(1)) == (50, 30)
    assert_same(feed(model, 1, other[:5], n_logits=5), expected)
    model.copy(1, 0, 0)
    assert model.length(0) == 0
    model.copy(1, 1, 30)
    assert model.length(1) == 30


def test_slots_of_an_exact_model_have_the_bits_of_each_alone(load):
    model = load(n_slots=3, exact=True)
    text, other = text_of(model, 60), text_of(model, 60, seed=1)
    alone = fresh(model, text, n_logits=60)
    feed(model, 1, other)
    rows, _ = model.forward(
        [
            Chunk(slot=2, tokens=text, n_logits=60),
            Chunk(slot=1, tokens=other[:9], n_logits=1),
        ]
    )
    assert rows.tobytes() == alone.tobytes()


def test_scattered_free_room_is_used(load):
    model = load(n_slots=2, n_ctx=128)
    text, other = text_of(model, 128), text_of(model, 128, seed=1)
    expected = fresh(model, text[:64] + other[:64])
    model.truncate(0, 0)
    for a, b in zip(text, other, strict=True):  # fill the whole cache, the slots' entries alternating
        model.forward([Chunk(slot=0, tokens=[a], n_logits=0), Chunk(slot=1, tokens=[b], n_logits=0)])
    model.truncate(0, 64)
    assert_same(feed(model, 0, other[:64]), expected)
    assert (model.length(0), model.length(1)) == (128, 128)


@pytest.mark.parametrize("token", [-1, 10**6, 2**31])
def test_ids_outside_the_vocabulary_are_refused_by_name(load, token):
    model = load()
    feed(model, 0, [1, 2])
    with pytest.raises(BackendError, match=rf"token id {token} is outside .* 0\.\.{model.info.n_vocab - 1}"):
        feed(model, 0, [1, token])
    assert model.length(0) == 2


def test_a_full_slot_is_refused_with_both_numbers(load):
    model = load(n_ctx=32)
    feed(model, 0, text_of(model, 30))
    with pytest.raises(BackendError, match="holds 30 tokens and has room for 32; 3 more do not fit"):
        feed(model, 0, [1, 2, 3])
    assert feed(model, 0, [1, 2]).shape[0] == 1


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([Chunk(slot=2, tokens=[1], n_logits=0)], r"slot 2 does not exist; this model has slots 0\.\.1"),
        ([Chunk(slot=-1, tokens=[1], n_logits=0)], "slot -1 does not exist"),
        ([Chunk(slot=0, tokens=[1], n_logits=0)] * 2, "slot 0 has two chunks"),
        ([Chunk(slot=0, tokens=[], n_logits=0)], "a chunk of 0 tokens cannot give 0 rows"),
        ([Chunk(slot=0, tokens=[1], n_logits=2)], "a chunk of 1 tokens cannot give 2 rows"),
        ([Chunk(slot=1, tokens=[1], n_logits=0), Chunk(slot=0, tokens=[-5], n_logits=0)], "token id -5"),
    ],
)
def test_a_pass_that_makes_no_sense_is_refused_whole(load, chunks, message):
    model = load(n_slots=2)
    with pytest.raises(BackendError, match=message):
        model.forward(chunks)
    assert (model.length(0), model.length(1)) == (0, 0)


def test_a_slot_cannot_be_cut_to_more_than_it_holds(load):
    model = load(n_slots=2)
    feed(model, 0, [1, 2, 3])
    with pytest.raises(BackendError, match="slot 0 holds 3 tokens; it cannot be cut to 4"):
        model.truncate(0, 4)
    with pytest.raises(BackendError, match="slot 0 holds 3 tokens; 4 cannot be copied"):
        model.copy(0, 1, 4)
    model.truncate(0, 3)
    assert model.length(0) == 3


def test_one_token_and_an_empty_slot_are_told_apart(load):
    model = load()
    first = feed(model, 0, [7])
    model.truncate(0, 0)
    assert feed(model, 0, [7]).tobytes() == first.tobytes()
    assert model.length(0) == 1


def test_an_empty_pass_gives_nothing(load):
    assert load().forward([]) == []


def test_closing_twice_is_allowed_and_a_closed_model_says_so(load):
    model = load()
    model.close()
    model.close()
    for call in (
        lambda: feed(model, 0, [1]),
        lambda: model.length(0),
        lambda: model.truncate(0, 0),
        lambda: model.copy(0, 0, 0),
        model.exact_widths,
        lambda: model.vocab.piece(1),
        lambda: model.vocab.encode("a", add_bos=False, special=False),
    ):
        with pytest.raises(BackendError, match="closed; load it again"):
            call()


def test_info_tells_what_was_loaded(load, provider, tiny):
    info = load(n_slots=2).info
    assert (info.provider, info.architecture, info.path) == (provider, "llama", tiny["llama"])
    assert (info.n_layers, info.n_ctx, info.n_ctx_train, info.n_slots) == (2, 128, 512, 2)
    assert (info.rollback, info.rollback_reason) == ("cut", "")
    assert info.provider_reason == "asked for"
    assert info.n_params > 0
    assert info.n_bytes > 0


def test_a_recurrent_model_says_that_it_replays(load):
    info = load("mamba").info
    assert info.rollback == "replay"
    assert "running state cannot be cut" in info.rollback_reason


def test_the_context_is_what_the_model_was_trained_for_unless_asked(load):
    assert load(n_ctx=None).info.n_ctx == 512
