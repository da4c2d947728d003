"""Measuring exact widths, and remembering them."""

import json

import numpy as np
import pytest
from passes import feed, need, text_of

from leadout.models import widths
from leadout.models.open import open_model
from leadout.models.options import GgufOptions


class Wavering:
    """Logits depend on the tokens, and from some width and length on also on how many come at once."""

    def __init__(self, honest):
        self.honest = honest
        self.tokens = []
        self.seen = []

    def forward(self, chunks):
        (chunk,) = chunks
        start, width = len(self.tokens), len(chunk.tokens)
        self.tokens += chunk.tokens
        self.seen.append((start, width))
        rows = [np.sin(np.arange(8) + sum(self.tokens[: start + i + 1])) for i in range(width)]
        rows = np.array(rows[width - chunk.n_logits :], np.float32).reshape(-1, 8)
        return [rows if self.honest(start, width) else np.nextafter(rows, np.float32(9))]

    def truncate(self, slot, length):
        del self.tokens[length:]


@pytest.mark.parametrize(
    ("honest", "expected"),
    [
        (lambda _start, _width: True, set(range(1, 17))),
        (lambda _start, width: width == 1, {1}),
        (lambda _start, width: width < 8, set(range(1, 8))),
        (lambda _start, width: width in (1, 2, 4, 16), {1, 2, 4, 16}),
        (lambda start, width: width < 4 or start + width <= 256, {1, 2, 3}),
        (lambda start, width: width < 6 or start < 1000, set(range(1, 6))),
    ],
)
def test_a_width_counts_only_if_its_bits_are_right_at_every_length(honest, expected):
    assert widths.measure(Wavering(honest), n_ctx=4096, n_vocab=100) == expected


def test_a_measurement_stops_when_no_width_is_left():
    passes = Wavering(lambda _start, width: width == 1)
    assert widths.measure(passes, n_ctx=4096, n_vocab=100) == {1}
    assert max(start for start, _ in passes.seen) < 50


@pytest.mark.parametrize("n_ctx", [2, 8, 16, 17, 40, 260, 600, 4096])
def test_a_measurement_stays_inside_the_context(n_ctx):
    passes = Wavering(lambda _start, _width: True)
    found = widths.measure(passes, n_ctx=n_ctx, n_vocab=100)
    assert found == set(range(1, min(16, n_ctx) + 1))
    assert max(start + width for start, width in passes.seen) <= n_ctx
    assert sum(width for _, width in passes.seen) < 2200


def test_a_row_of_another_sign_of_zero_is_not_the_same_bits():
    class Zeros(Wavering):
        def forward(self, chunks):
            (chunk,) = chunks
            self.tokens += chunk.tokens
            return [np.full((chunk.n_logits, 4), -0.0 if len(chunk.tokens) > 1 else 0.0, np.float32)]

    assert widths.measure(Zeros(None), n_ctx=64, n_vocab=10) == {1}


def test_what_was_measured_is_remembered(tmp_path):
    calls = []

    def measure():
        calls.append(1)
        return frozenset({1, 2, 5})

    assert widths.recall("key", measure, tmp_path) == {1, 2, 5}
    assert widths.recall("key", measure, tmp_path) == {1, 2, 5}
    assert len(calls) == 1
    widths.recall("other", measure, tmp_path)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"widths": 3}', '{"widths": [2]}', '{"widths": [1, "2"]}', '{"widths": [1, 99]}', "\0"],
)
def test_a_damaged_memory_is_measured_anew(tmp_path, damage):
    (tmp_path / "key.json").write_text(damage)
    assert widths.recall("key", lambda: frozenset({1, 3}), tmp_path) == {1, 3}
    assert json.loads((tmp_path / "key.json").read_text()) == {"widths": [1, 3]}


def test_a_cache_that_cannot_be_written_does_not_fail(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert widths.recall("key", lambda: frozenset({1}), blocked) == {1}


def test_the_key_changes_with_file_and_options(load, tiny):
    model = load()
    facts, parts = model._binding.facts, (tiny["llama"],)
    keys = {
        widths.cache_key(parts, facts, GgufOptions()),
        widths.cache_key(parts, facts, GgufOptions(exact=True)),
        widths.cache_key(parts, facts, GgufOptions(flash_attn="off")),
        widths.cache_key(parts, facts, GgufOptions(n_threads=1)),
        widths.cache_key((tiny["qwen2"],), facts, GgufOptions()),
    }
    assert len(keys) == 5
    assert widths.cache_key(parts, facts, GgufOptions()) in keys


def test_a_model_keeps_its_promise_about_widths_and_its_slots(load, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = load(exact=True, n_slots=2)
    text = text_of(model, 60)
    before = feed(model, 0, text)
    exact = model.exact_widths()
    assert 1 in exact
    assert model.exact_widths() == exact
    assert (model.length(0), model.length(1)) == (60, 0)
    model.truncate(0, 59)
    assert np.array_equal(feed(model, 0, text[59:]), feed_singly(model, text)) or len(exact) == 1
    assert before.shape == (1, model.info.n_vocab)


def feed_singly(model, text):
    model.truncate(0, 59)
    return feed(model, 0, text[59:])


def test_slots_that_share_a_cache_are_exact_one_by_one_only(tiny):
    need("llama")
    model = open_model(tiny["llama"], provider="llama", options=GgufOptions(n_ctx=64, n_slots=2))
    assert model.exact_widths() == {1}
    model.close()
