import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from tiny_backends import TinyBackend

from leadout.errors import InputError
from leadout.models.header import read_header
from leadout.testing.tiny_gguf import tiny_vocabulary, write_split_gguf, write_tiny_gguf
from leadout.testing.tiny_model import TinyModel, TinyOptions

TEXT = "the <|im_start|>other\n  thing 🐢歪é\t\x01~ def"
MODELS: list[TinyOptions] = [
    {"architecture": "llama"},
    {"architecture": "llama", "tokenizer": "bpe"},
    {"architecture": "qwen2"},
    {"architecture": "qwen2", "tensor_type": "F16", "n_pad": 3},
    {"architecture": "qwen2", "tensor_type": "Q8_0", "n_vocab": 320},
    {"architecture": "gemma3"},
    {"architecture": "gemma3", "tensor_type": "Q8_0", "sliding_window": 8},
]
MAMBA: TinyOptions = {"architecture": "mamba"}  # ik_llama.cpp kills the process on it
CASES = [
    *((provider, options) for provider in ("llama", "ik") for options in MODELS),
    ("llama", MAMBA),
    ("llama", MAMBA | {"tensor_type": "F16"}),
    ("llama", MAMBA | {"tensor_type": "Q8_0"}),
]


@contextmanager
def loaded(provider: str, path: Path) -> Iterator[TinyBackend]:
    backend = TinyBackend(provider, path)
    try:
        yield backend
    finally:
        backend.close()


@pytest.mark.parametrize(("provider", "options"), CASES, ids=str)
def test_model_loads_speaks_and_wanders(tmp_path: Path, provider: str, options: TinyOptions) -> None:
    path = write_tiny_gguf(tmp_path / "tiny мод é.gguf", **options)
    assert path.stat().st_size < 1_100_000
    with loaded(provider, path) as backend:
        vocabulary = tiny_vocabulary(**options)
        assert backend.n_vocab == len(vocabulary.tokens)
        ids = backend.encode(TEXT)
        assert backend.decode(ids).decode().removeprefix(" ") == TEXT
        answer = backend.greedy(ids, 48)
        assert len(set(answer)) > 10
        assert all(vocabulary.types[token] not in (3, 5) for token in answer)


@pytest.mark.parametrize("provider", ["llama", "ik"])
def test_logits_are_spread(tmp_path: Path, provider: str) -> None:
    with loaded(provider, write_tiny_gguf(tmp_path / "m.gguf")) as backend:
        assert 2.0 < float(np.std(backend.forward([40, 50, 60]))) < 4.0


@pytest.mark.parametrize("tensor_type", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("seed", range(5))
def test_mamba_logits_are_finite_in_every_tensor_type(tmp_path: Path, tensor_type: str, seed: int) -> None:
    options: TinyOptions = {"architecture": "mamba", "seed": seed, "tensor_type": tensor_type}  # type: ignore[typeddict-item]
    with loaded("llama", write_tiny_gguf(tmp_path / "m.gguf", **options)) as backend:
        assert np.isfinite(backend.forward(list(range(5, 100)))).all()


@pytest.mark.parametrize("provider", ["llama", "ik"])
def test_split_model_is_accepted_and_equals_the_whole(tmp_path: Path, provider: str) -> None:
    whole = write_tiny_gguf(tmp_path / "whole.gguf", seed=5)
    parts = write_split_gguf(tmp_path / "m.gguf", 3, seed=5)
    assert [part.name for part in parts] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    with loaded(provider, whole) as one, loaded(provider, parts[0]) as other:
        assert one.forward([9, 8, 7]).tobytes() == other.forward([9, 8, 7]).tobytes()


def test_both_libraries_agree_on_the_greedy_answer(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", architecture="qwen2")
    with loaded("llama", path) as one, loaded("ik", path) as other:
        assert one.greedy([1, 2, 3], 16) == other.greedy([1, 2, 3], 16)


def test_seed_decides_the_weights(tmp_path: Path) -> None:
    first = write_tiny_gguf(tmp_path / "a.gguf", seed=1).read_bytes()
    assert write_tiny_gguf(tmp_path / "b.gguf", seed=1).read_bytes() == first
    assert write_tiny_gguf(tmp_path / "c.gguf", seed=2).read_bytes() != first


def test_padding_rows_leave_the_other_logits_alone(tmp_path: Path) -> None:
    plain = write_tiny_gguf(tmp_path / "a.gguf", architecture="qwen2")
    padded = write_tiny_gguf(tmp_path / "b.gguf", architecture="qwen2", n_pad=5)
    with loaded("llama", plain) as one, loaded("llama", padded) as other:
        assert other.n_vocab == one.n_vocab + 5
        np.testing.assert_allclose(other.forward([5, 6])[: one.n_vocab], one.forward([5, 6]), atol=1e-4)


def test_perturbed_model_agrees_now_and_then(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "t.gguf", architecture="qwen2")
    draft = write_tiny_gguf(tmp_path / "d.gguf", architecture="qwen2", perturb=0.05)
    with loaded("llama", target) as one, loaded("llama", draft) as other:
        answer = one.greedy([1, 2, 3], 64)
        guesses = [int(other.forward([1, 2, 3]).argmax())]
        guesses += [int(other.forward([token]).argmax()) for token in answer[:-1]]
    share = np.mean([ours == theirs for ours, theirs in zip(answer, guesses, strict=True)])
    assert 0.3 < share < 0.85


def test_a_lifted_row_is_always_said(tmp_path: Path) -> None:
    quiet = tiny_vocabulary(architecture="qwen2").eos
    path = write_tiny_gguf(tmp_path / "m.gguf", architecture="qwen2", output_scale={quiet: 100.0})
    with loaded("llama", path) as backend:
        assert quiet in backend.greedy([1, 2, 3], 16)


def test_options_are_written(tmp_path: Path) -> None:
    path = write_tiny_gguf(
        tmp_path / "m.gguf",
        architecture="qwen2",
        name="mine",
        n_ctx_train=99,
        n_layers=1,
        tokens={7: "<think>"},
        types={7: 3},
        bos=8,
        eos=9,
        add_bos=True,
        chat_template="{{ x }}",
    )
    header = read_header(path)
    assert (header.name, header.n_ctx_train, header.n_layers) == ("mine", 99, 1)
    assert header.tokens[7] == "<think>"
    assert header.token_types is not None
    assert header.token_types[7] == 3
    assert header.chat_template == "{{ x }}"
    ids = [
        header.metadata[f"tokenizer.ggml.{name}"]
        for name in ("bos_token_id", "eos_token_id", "add_bos_token")
    ]
    assert ids == [8, 9, True]


def test_control_token_is_one_id_and_text_is_not(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", architecture="qwen2", tokens={270: "<think>"}, types={270: 3})
    with loaded("llama", path) as backend:
        assert backend.encode("a<think>b")[1] == 270


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"n_vocab": 10}, "n_vocab is 10; this tokenizer needs at least"),
        ({"tokens": {9999: "x"}}, r"an option names id 9999; the model has ids 0\.\."),
        ({"eos": -1}, "an option names id -1"),
        ({"output_scale": {9999: 1.0}}, "an option names id 9999"),
    ],
)
def test_options_that_do_not_fit_are_named(tmp_path: Path, options: TinyOptions, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        write_tiny_gguf(tmp_path / "m.gguf", **options)


@pytest.mark.parametrize("n_parts", [0, 1, 20, 1000])
def test_parts_that_cannot_be_dealt_out_are_refused(tmp_path: Path, n_parts: int) -> None:
    with pytest.raises(InputError, match=f"n_parts is {n_parts}; 21 tensors cannot be dealt out"):
        write_split_gguf(tmp_path / "m.gguf", n_parts)


def test_keywords_are_the_fields_of_the_model() -> None:
    assert set(TinyOptions.__annotations__) == {field.name for field in fields(TinyModel)}


def test_importing_testing_loads_no_gguf() -> None:
    code = "import sys, leadout.testing, leadout.testing.tiny_gguf; print('gguf' in sys.modules)"
    source = Path(write_tiny_gguf.__code__.co_filename).parents[2]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(source)!r})\n{code}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
