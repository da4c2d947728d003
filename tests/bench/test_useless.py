"""A draft that knows nothing has everything else of the real one."""

import numpy as np
import pytest

from leadout.bench.useless import scrambled
from leadout.engine.params import Params
from leadout.loading import load
from leadout.models.header import read_header
from leadout.testing.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("useless") / "tiny.gguf")


def test_vocabulary_and_sizes_stay(tiny, tmp_path):
    made = scrambled(tiny, folder=tmp_path)
    real, useless = read_header(tiny), read_header(made)
    assert list(useless.tokens) == list(real.tokens)
    assert useless.tensor_kinds == real.tensor_kinds
    assert made.stat().st_size == tiny.stat().st_size
    assert made.read_bytes() != tiny.read_bytes()
    assert sorted(np.fromfile(made, np.uint8)) == sorted(np.fromfile(tiny, np.uint8))
    assert not list(tmp_path.glob("*.part"))


def test_it_says_other_things_and_the_text_stays_the_targets(tiny, tmp_path):
    pytest.importorskip("ik_llama_cpp")
    params = Params(temperature=0.0, max_tokens=24)
    made = scrambled(tiny, folder=tmp_path)
    with load(tiny) as plain, load(made) as alone, load(tiny, draft=made) as drafted:
        said = plain.generate("a b c", params)
        assert alone.generate("a b c", params).ids != said.ids
        assert drafted.generate("a b c", params).ids == said.ids
