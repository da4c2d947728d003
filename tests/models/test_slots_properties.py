"""Whatever is done to the slots, they say what a fresh cache fed with their tokens would say."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from passes import TOLERANCE, need

from leadout.models.base import Chunk
from leadout.models.open import open_model
from leadout.models.options import GgufOptions

N_SLOTS, N_CTX = 3, 64
CASES = [("ik", "llama"), ("ik", "gemma3"), ("llama", "llama"), ("llama", "gemma3"), ("llama", "mamba")]

tokens = st.lists(st.integers(0, 200), min_size=1, max_size=20)
share = st.floats(0, 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("forward"), st.dictionaries(st.integers(0, N_SLOTS - 1), tokens, min_size=1)),
        st.tuples(st.just("truncate"), st.integers(0, N_SLOTS - 1), share),
        st.tuples(st.just("copy"), st.integers(0, N_SLOTS - 1), st.integers(0, N_SLOTS - 1), share),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def pair(request, tiny):
    """The model under test, and another that is always asked afresh."""
    provider, architecture = request.param
    need(provider)
    # Flash attention adds in 16 bits, in the order of the entries: 0.09 apart where slots lie interleaved.
    options = {"n_ctx": N_CTX, "n_threads": 1, "n_batch": 32, "flash_attn": "off"}
    model = open_model(tiny[architecture], provider=provider, options=GgufOptions(n_slots=N_SLOTS, **options))
    judge = open_model(tiny[architecture], provider=provider, options=GgufOptions(**options))
    yield model, judge
    model.close()
    judge.close()


SPLIT_PASS = [  # its second group overwrites what the window of slot 2 left behind as of the first
    ("forward", {2: [5], 0: [5] * 3, 1: [5]}),
    ("forward", {2: [6] * 6}),
    ("forward", {2: [7] * 6, 0: [7] * 16}),
    ("truncate", 1, 0.0),
    ("forward", {2: [8] * 3, 1: [8] * 13, 0: [8] * 17}),
    ("truncate", 2, 1 / 16),
]


@given(steps=steps)
@example(steps=SPLIT_PASS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slots_always_equal_a_fresh_cache(pair, steps):
    model, judge = pair
    held = [[] for _ in range(N_SLOTS)]
    for slot in range(N_SLOTS):
        model.truncate(slot, 0)
    for kind, *arguments in steps:
        if kind == "forward":
            fitting = {slot: new for slot, new in arguments[0].items() if len(held[slot]) + len(new) <= N_CTX}
            rows = model.forward([Chunk(slot=slot, tokens=new, n_logits=1) for slot, new in fitting.items()])
            rows = [row.copy() for row in rows]
            for (slot, new), row in zip(fitting.items(), rows, strict=True):
                held[slot] += new
                judge.truncate(0, 0)
                expected = judge.forward([Chunk(slot=0, tokens=held[slot], n_logits=1)])[0]
                np.testing.assert_allclose(row, expected, rtol=0, atol=TOLERANCE)
        elif kind == "truncate":
            slot, part = arguments
            length = round(part * len(held[slot]))
            model.truncate(slot, length)
            del held[slot][length:]
        else:
            source, target, part = arguments
            length = round(part * len(held[source]))
            model.copy(source, target, length)
            held[target] = held[source][:length]
        assert [model.length(slot) for slot in range(N_SLOTS)] == [len(tokens) for tokens in held]
