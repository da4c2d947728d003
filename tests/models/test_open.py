"""From a path to a loaded model: providers, bad files, odd paths."""

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import gguf
import numpy as np
import pytest
from passes import assert_same, fresh, need, text_of

from leadout.errors import InputError, ModelFileError, ProviderError
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import write_split_gguf, write_tiny_gguf

SMALL = GgufOptions(n_ctx=64, n_threads=1)


def opened_info(path, **arguments):
    model = open_model(path, **{"options": SMALL, **arguments})
    model.close()
    return model.info


def test_auto_takes_ik_for_a_model_on_the_cpu(tiny):
    need("ik")
    info = opened_info(tiny["llama"])
    assert (info.provider, info.name) == ("ik", "tiny")
    assert "CPU only" in info.provider_reason


def test_auto_takes_llama_where_ik_does_not_know_the_architecture(tiny):
    need("ik")
    need("llama")
    info = opened_info(tiny["mamba"], name="snake")
    assert (info.provider, info.name) == ("llama", "snake")
    assert info.provider_reason.startswith("not ik: the ik provider does not run 'mamba' models")


def test_auto_takes_llama_where_ik_cannot_honour_an_option(tiny):
    need("ik")
    need("llama")
    info = opened_info(tiny["llama"], options=GgufOptions(n_ctx=64, kv_type_k="f32"))
    assert info.provider == "llama"
    assert "kv_type_k is 'f32'" in info.provider_reason


def test_auto_with_gpu_layers_takes_llama(tiny):
    need("llama")
    with pytest.raises(ProviderError, match="n_gpu_layers is 99, but this build of llama-cpp-python"):
        open_model(tiny["llama"], options=GgufOptions(n_gpu_layers=99))


@pytest.mark.parametrize(
    ("architecture", "layers", "message"),
    [
        ("mamba", 2, "does not run 'mamba' models; use --provider llama"),
        ("gemma3", 3, "crashes on a gemma3 with fewer than 6 layers; this one has 3"),
    ],
)
def test_ik_refuses_what_would_end_the_process(tmp_path, architecture, layers, message):
    path = write_tiny_gguf(tmp_path / "model.gguf", architecture=architecture, n_layers=layers)
    with pytest.raises(ProviderError, match=message):
        open_model(path, provider="ik", options=SMALL)


def with_rope_table(source, path):
    """The model of `source` with a table of rotary frequencies, as Llama 3.1 has one."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, "llama")
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), field.types[0], inner)
    n = reader.fields["llama.rope.dimension_count"].contents() // 2
    writer.add_tensor("rope_freqs.weight", np.linspace(1, 8, n, dtype=np.float32))
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_table_of_rotary_frequencies_is_llamas_work(tiny, tmp_path):
    path = with_rope_table(tiny["llama"], tmp_path / "rope.gguf")
    with pytest.raises(ProviderError, match=r"ignores the model's table .*rope_freqs\.weight.* wrong logits"):
        open_model(path, provider="ik", options=SMALL)
    need("llama")
    assert opened_info(path).provider == "llama"


def test_both_providers_say_the_same(tiny):
    need("ik")
    need("llama")
    for name in ("llama", "qwen2", "gemma3"):
        ik, llama = (open_model(tiny[name], provider=provider, options=SMALL) for provider in ("ik", "llama"))
        text = text_of(ik, 40)
        assert_same(fresh(ik, text, n_logits=20), fresh(llama, text, n_logits=20))
        ik.close()
        llama.close()


def test_an_unknown_provider_is_refused(tiny):
    with pytest.raises(InputError, match="provider is 'vllm'; it must be one of auto, ik, llama"):
        open_model(tiny["llama"], provider="vllm")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_paths_with_spaces_and_letters_of_any_script(tiny, tmp_path, provider, form):
    folder = tmp_path / unicodedata.normalize(form, "Загрузки") / unicodedata.normalize(form, "мод ель é")
    folder.mkdir(parents=True)
    path = folder / "a b.gguf"
    path.write_bytes(tiny["llama"].read_bytes())
    assert opened_info(path, provider=provider).path == path


def test_long_paths(tiny, tmp_path, provider):
    folder = tmp_path / ("d" * 150) / ("e" * 150)
    folder.mkdir(parents=True)
    path = folder / "model.gguf"
    path.write_bytes(tiny["llama"].read_bytes())
    assert opened_info(str(path), provider=provider).path == path


def test_home_and_relative_paths_become_absolute(tiny, provider):
    there = os.path.relpath(tiny["llama"])
    assert opened_info(there, provider=provider).path == tiny["llama"]
    at_home = f"~/{os.path.relpath(tiny['llama'], Path.home())}"
    assert opened_info(at_home, provider=provider).path == tiny["llama"]


def test_split_files_are_found_from_the_first(tmp_path, provider):
    parts = write_split_gguf(tmp_path / "split.gguf", 3)
    whole = write_tiny_gguf(tmp_path / "whole.gguf")
    split, single = (open_model(path, provider=provider, options=SMALL) for path in (parts[0], whole))
    text = text_of(split, 30)
    assert fresh(split, text).tobytes() == fresh(single, text).tobytes()
    split.close()
    single.close()
    parts[1].unlink()
    with pytest.raises(ModelFileError, match=r"1 of them missing.*split-00002-of-00003\.gguf"):
        open_model(parts[0], provider=provider)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], "cut short"),
        (lambda data: data[:100], "damaged or cut short"),
        (lambda data: b"PK\x03\x04" + data[4:], "is not a GGUF file"),
        (lambda _: b"", "is empty"),
    ],
)
def test_bad_files_are_refused_before_a_library_sees_them(tiny, tmp_path, provider, damage, message):
    path = tmp_path / "bad.gguf"
    path.write_bytes(damage(tiny["llama"].read_bytes()))
    with pytest.raises(ModelFileError, match=message):
        open_model(path, provider=provider)


def test_what_the_library_says_of_a_file_it_cannot_load_is_quoted(tiny, tmp_path, provider):
    data = tiny["llama"].read_bytes()
    path = tmp_path / "renamed.gguf"
    path.write_bytes(data.replace(b"output_norm.weight", b"output_gnom.weight"))
    with pytest.raises(ModelFileError, match=rf"the {provider} provider cannot load {path}: .*output_norm"):
        open_model(path, provider=provider, options=SMALL)


@pytest.mark.parametrize("first", ["ik", "llama"])
def test_both_libraries_live_in_one_process_and_keep_quiet(tiny, first):
    need("ik")
    need("llama")
    code = f"""
import sys
from leadout.models.open import open_model
from leadout.models.base import Chunk
assert not {{"ik_llama_cpp", "llama_cpp"}} & set(sys.modules)
for provider in sorted(["ik", "llama"], reverse={first == "llama"}) * 2:
    model = open_model({str(tiny["llama"])!r}, provider=provider)
    print(provider, int(model.forward([Chunk(slot=0, tokens=[5, 6, 7], n_logits=1)])[0].argmax()))
    model.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert len({line.split()[1] for line in done.stdout.splitlines()}) == 1
    assert len(done.stdout.splitlines()) == 4


def test_importing_the_models_loads_no_library():
    code = (
        "import sys, leadout.models.open, leadout.models.binding_ik, leadout.models.binding_llama\n"
        "print({'ik_llama_cpp', 'llama_cpp'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("hidden", "provider", "message"),
    [
        (
            "ik_llama_cpp",
            "ik",
            r"needs ik-llama-cpp-python; install it with: pip install 'leadout\[ik\]'",
        ),
        ("llama_cpp", "llama", r"needs llama-cpp-python; install it with: pip install 'leadout\[llama\]'"),
        (
            "both",
            "auto",
            r"no library for GGUF files is installed; install one with: pip install 'leadout\[ik\]'",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_command(tiny, hidden, provider, message):
    code = f"""
import sys
from importlib.machinery import PathFinder
class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = ("ik_llama_cpp", "llama_cpp") if {hidden!r} == "both" else ({hidden!r},)
        return None if name in hidden else super().find_spec(name, path, target)
sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
from leadout.models.open import open_model
open_model({str(tiny["llama"])!r}, provider={provider!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert re.search(message, done.stderr), done.stderr
