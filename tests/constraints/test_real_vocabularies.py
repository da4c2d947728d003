"""Grammars over vocabularies as the libraries read them: BPE, and SPM, which puts a space in front."""

import json

import numpy as np
import pytest

from leadout.constraints import Grammars, json_object, json_schema
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import write_tiny_gguf

SAID = {"the": "and ätherisch\n", "n": [1, None]}


@pytest.fixture(scope="module", params=["bpe", "spm"])
def vocab(request, tmp_path_factory):
    path = write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tokenizer=request.param)
    model = open_model(path, name="tiny", provider="auto", options=GgufOptions(n_threads=1))
    yield model.vocab
    model.close()


def test_what_is_forced_is_the_text_and_nothing_else(vocab):
    state, text = Grammars(vocab).compile(json_schema({"const": SAID})).begin(), b""
    while not state.is_over:
        tokens = state.forced() or [int(np.flatnonzero(state.mask())[0])]
        for token in tokens:
            state.advance(token)
            text += vocab.piece(token)
    assert json.loads(text) == SAID


def test_only_tokens_that_write_the_json_are_allowed(vocab):
    mask = Grammars(vocab).compile(json_object()).begin().mask()
    assert mask.shape == (vocab.size,)
    assert {vocab.piece(token)[:1] for token in np.flatnonzero(mask).tolist()} == {b"{"}
