"""The same claims on real models: quantised weights, large vocabularies, windows that are really passed."""

import numpy as np
import pytest
from passes import feed, need

from leadout.models.base import Chunk
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from real_models import real_model

SMALL = [pytest.param("smollm2-135m", marks=pytest.mark.model)]
PAIR = [pytest.param(name, marks=pytest.mark.pair) for name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")]
PROMPT = "The first three months of the year are January, February and March. The last three months are"
TEXTS = ["naïve 歪é 日本語", "🐢🤦🏽‍♂️", "a\tb\n\n  c", "if x:\n\treturn {'k': [1, 2.5e-3]}"]


@pytest.fixture
def opened():
    models = []

    def open_real(name, provider, **options):
        need(provider)
        path = real_model(name)
        models.append(open_model(path, provider=provider, options=GgufOptions(**{"n_ctx": 1024, **options})))
        return models[-1]

    yield open_real
    for model in models:
        model.close()


@pytest.mark.parametrize("name", SMALL + PAIR)
def test_providers_choose_the_same_token_where_the_choice_is_clear(opened, name):
    ik, llama = opened(name, "ik", n_ctx=256), opened(name, "llama", n_ctx=256)
    text = ik.vocab.encode(PROMPT, add_bos=ik.vocab.adds_bos, special=True)
    assert text == llama.vocab.encode(PROMPT, add_bos=ik.vocab.adds_bos, special=True)
    ours, theirs = (feed(model, 0, text, n_logits=len(text)) for model in (ik, llama))
    gaps = np.diff(np.sort(theirs, axis=1)[:, -2:], axis=1)[:, 0]
    is_clear = gaps > 2  # both round activations to 8 bits, each in its own way: near ties may differ
    assert is_clear.sum() >= 3
    assert (ours.argmax(axis=1) == theirs.argmax(axis=1))[is_clear].all()
    assert np.median([np.corrcoef(a, b)[0, 1] for a, b in zip(ours, theirs, strict=True)]) > 0.99


@pytest.mark.parametrize("name", SMALL + PAIR)
@pytest.mark.parametrize("provider", ["ik", "llama"])
def test_real_text_survives_ids_and_back(opened, name, provider):
    vocab = opened(name, provider).vocab
    for text in TEXTS:
        ids = vocab.encode(text, add_bos=False, special=True)
        assert b"".join(vocab.piece(token) for token in ids) == text.encode()
    marker = vocab.encode("<|im_start|>", add_bos=False, special=True)
    assert len(marker) == 1
    assert vocab.piece(marker[0]) == b""
    assert vocab.piece(marker[0], special=True) == b"<|im_start|>"
    assert len(vocab.encode("<|im_start|>", add_bos=False, special=False)) > 1
    assert vocab.is_end(vocab.encode("<|im_end|>", add_bos=False, special=True)[0])
    assert "im_start" in (vocab.chat_template or "")
    for token in range(vocab.size - 300, vocab.size):  # padding rows included
        vocab.piece(token)
        vocab.text(token)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("provider", ["ik", "llama"])
def test_logits_after_a_cut_have_the_bits_of_a_fresh_pass(opened, name, provider):
    model = opened(name, provider)
    text = np.random.default_rng(1).integers(5, 40000, 300).tolist()
    feed(model, 0, text[:280])
    expected = [feed(model, 0, [token]).tobytes() for token in text[280:290]]
    model.truncate(0, 280)
    feed(model, 0, text[290:296], n_logits=6)  # a proposal that is thrown away
    model.truncate(0, 280)
    assert [feed(model, 0, [token]).tobytes() for token in text[280:290]] == expected


@pytest.mark.model
@pytest.mark.parametrize("provider", ["ik", "llama"])
def test_a_sliding_window_is_cut_right_after_it_has_moved(opened, provider):
    model = opened("gemma3-270m", provider)
    text = np.random.default_rng(2).integers(5, 40000, 800).tolist()
    feed(model, 0, text[:512])
    feed(model, 0, text[512:560])
    expected = feed(model, 0, text[560:600], n_logits=40)
    feed(model, 0, text[600:])
    model.truncate(0, 560)
    rows = feed(model, 0, text[560:600], n_logits=40)
    assert rows.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", SMALL)
def test_ik_is_exact_at_every_width_and_slots_do_not_touch_each_other(opened, name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = opened(name, "ik", n_slots=2)
    assert model.exact_widths() == set(range(1, 17))
    text = np.random.default_rng(3).integers(5, 40000, 60).tolist()
    alone = feed(model, 0, text, n_logits=3)
    feed(model, 1, text[::-1])
    model.truncate(0, 0)
    together = model.forward(
        [
            Chunk(slot=0, tokens=text, n_logits=3),
            Chunk(slot=1, tokens=text[:5], n_logits=1),
        ]
    )[0]
    assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "iq4_nl"])
def test_quantised_caches_of_ik_stay_near_the_full_one(opened, name, kind):
    text = np.random.default_rng(4).integers(5, 40000, 290).tolist()
    expected = feed(opened(name, "ik"), 0, text)[0]
    for values, flash_attn in (("f16", "off"), ("f16", "on"), (kind, "auto")):
        model = opened(name, "ik", kv_type_k=kind, kv_type_v=values, flash_attn=flash_attn)
        rows = feed(model, 0, text)[0]
        assert np.corrcoef(rows, expected)[0, 1] > 0.95
