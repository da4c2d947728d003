"""What tests of models share: texts of random ids, passes, and what a fresh cache would say."""

from importlib.util import find_spec

import numpy as np
import pytest

from leadout.models.base import Chunk

TOLERANCE = 0.08
"""Logits spread over about +-12; kernels for other widths and layouts round 16-bit values otherwise."""

PACKAGES = {"ik": "ik_llama_cpp", "llama": "llama_cpp"}


def need(provider):
    if find_spec(PACKAGES[provider]) is None:
        pytest.skip(f"the {provider} provider is not installed")


def text_of(model, n, seed=0):
    return np.random.default_rng(seed).integers(0, model.info.n_vocab, n).tolist()


def feed(model, slot, tokens, n_logits=1):
    return model.forward([Chunk(slot=slot, tokens=tokens, n_logits=n_logits)])[0].copy()


def fresh(model, tokens, n_logits=1):
    """Logits of `tokens` in slot 0 of a model that is otherwise unused."""
    model.truncate(0, 0)
    return feed(model, 0, tokens, n_logits)


def assert_same(rows, expected):
    assert rows.shape == expected.shape
    np.testing.assert_allclose(rows, expected, rtol=0, atol=TOLERANCE)
