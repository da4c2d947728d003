"""Other formats of the same weights: made once, whole or not at all."""

import pytest

from leadout.bench.options import BenchOptions
from leadout.bench.quantised import BITS_PER_WEIGHT, quantised
from leadout.errors import InputError, ModelFileError, ProviderError
from leadout.models.header import read_header
from leadout.testing.tiny_gguf import write_tiny_gguf

Q8_0, F16 = 8, 1  # ggml.h, enum ggml_type


class Told:
    """Writes down the stages of a making."""

    def __init__(self):
        self.stages, self.n_bytes = [], 0

    def start(self, total_bytes, label):
        self.stages.append(label)

    def advance(self, n_bytes):
        self.n_bytes += n_bytes

    def finish(self):
        pass


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    pytest.importorskip("llama_cpp")
    return write_tiny_gguf(tmp_path_factory.mktemp("quantised") / "tiny.gguf")


@pytest.mark.parametrize(("kind", "ggml"), [("f16", F16), ("Q8_0", Q8_0)])
def test_weights_come_in_the_format_that_was_asked_for(tiny, tmp_path, kind, ggml):
    told = Told()
    made = quantised(tiny, kind, folder=tmp_path, progress=told)
    assert made.name.startswith(f"tiny-{kind.lower()}-")
    found = read_header(made)
    assert ggml in found.tensor_kinds
    assert found.n_params == read_header(tiny).n_params
    assert told.stages == ["hashing tiny.gguf", f"making {kind.lower()} of tiny.gguf"]
    assert [each.name for each in tmp_path.glob("*.part")] == []


def test_what_was_made_is_used_again_while_the_source_is_the_same(tiny, tmp_path):
    first = quantised(tiny, "f16", folder=tmp_path)
    before = first.stat().st_mtime_ns
    assert quantised(tiny, "f16", folder=tmp_path) == first
    assert first.stat().st_mtime_ns == before
    other = tmp_path / "other" / "tiny.gguf"
    other.parent.mkdir()
    write_tiny_gguf(other, seed=5)
    assert quantised(other, "f16", folder=tmp_path) != first


def test_failure_leaves_nothing_behind(tiny, tmp_path):
    source = tmp_path / "source.gguf"
    source.write_bytes(tiny.read_bytes().replace(b"llama.block_count", b"llama.blick_count"))
    with pytest.raises((ProviderError, ModelFileError)):
        quantised(source, "f16", folder=tmp_path / "made")
    assert not list((tmp_path / "made").glob("*.gguf"))
    assert not list((tmp_path / "made").glob("*.part"))


def test_unknown_formats_are_refused(tiny, tmp_path):
    with pytest.raises(InputError, match=f"quant is 'q9'; it must be one of {', '.join(BITS_PER_WEIGHT)}"):
        quantised(tiny, "q9", folder=tmp_path)
    with pytest.raises(InputError, match="draft_quant is 'q9'; it must be one of"):
        BenchOptions(draft_quant="q9")
