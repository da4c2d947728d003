import os
import random
import struct
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadout.errors import ModelFileError
from leadout.models.header import Header, read_header
from leadout.models.model_files import absolute_path
from leadout.testing.tiny_gguf import tiny_vocabulary, write_split_gguf, write_tiny_gguf
from real_models import real_model


def complaint(path: Path | str) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_header(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(absolute_path(path)) in message
    return message


def gguf_bytes(n_tensors: int = 0, n_entries: int = 0, body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_entries) + body


def entry(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_gguf(
        tmp_path / "tiny.gguf", architecture="qwen2", n_pad=2, chat_template="{{ messages }}"
    )


def test_header_tells_what_was_written(tiny: Path) -> None:
    header = read_header(tiny)
    vocabulary = tiny_vocabulary(architecture="qwen2", n_pad=2)
    assert (header.version, header.architecture, header.name) == (3, "qwen2", "tiny")
    assert (header.n_layers, header.n_ctx_train, header.n_embd) == (2, 512, 64)
    assert (header.n_head, header.n_head_kv, header.sliding_window) == (2, 1, 0)
    assert tuple(header.tokens) == vocabulary.tokens
    assert header.tokens[-1] == f"[PAD{header.n_vocab - 1}]"
    assert header.token_types is not None
    assert header.token_types.tolist() == list(vocabulary.types)
    assert header.chat_template == "{{ messages }}"
    assert header.parts == (header.path,) == (tiny,)
    assert header.n_bytes == tiny.stat().st_size
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    assert not header.is_recurrent


def test_parameters_are_counted(tiny: Path) -> None:
    header = read_header(tiny)
    layer = 3 * 64 * 128 + 2 * 64 * 64 + 2 * 32 * 64 + 64 + 2 * 32 + 2 * 64
    assert header.n_params == 2 * layer + 2 * header.n_vocab * 64 + 64
    assert header.n_tensors == 2 * 12 + 3


def test_sliding_window_and_running_state_are_seen(tmp_path: Path) -> None:
    gemma = read_header(write_tiny_gguf(tmp_path / "g.gguf", architecture="gemma3", sliding_window=24))
    assert (gemma.sliding_window, gemma.is_recurrent, gemma.n_layers) == (24, False, 6)
    mamba = read_header(write_tiny_gguf(tmp_path / "m.gguf", architecture="mamba"))
    assert (mamba.is_recurrent, mamba.is_hybrid, mamba.n_head) == (True, False, 0)


def test_hybrid_has_state_and_heads(tmp_path: Path) -> None:
    body = entry("general.architecture", 8, struct.pack("<Q", 5) + b"jamba")
    body += entry("jamba.ssm.state_size", 4, struct.pack("<I", 16))
    body += entry("jamba.attention.head_count", 9, struct.pack("<IQ3i", 5, 3, 0, 8, 4))
    path = tmp_path / "hybrid.gguf"
    path.write_bytes(gguf_bytes(n_entries=3, body=body))
    header = read_header(path)
    assert (header.is_recurrent, header.is_hybrid, header.n_head) == (True, True, 8)
    assert header.name == "hybrid"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_other_unicode_form_of_the_path_is_found(tmp_path: Path, form: str) -> None:
    other = "NFD" if form == "NFC" else "NFC"
    folder = tmp_path / unicodedata.normalize(form, "Загрузки мод ель é")
    folder.mkdir()
    written = write_tiny_gguf(folder / "m.gguf")
    assert read_header(unicodedata.normalize(other, str(written))).path == written


def test_relative_path_and_tilde_are_resolved(tiny: Path) -> None:
    relative = os.path.relpath(tiny)
    assert read_header(relative).path == tiny
    assert absolute_path("~/m.gguf") == Path.home() / "m.gguf"
    with pytest.raises(ModelFileError, match=r"cannot resolve the model path ~nobody-of-this-name/m.gguf"):
        absolute_path("~nobody-of-this-name/m.gguf")


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    source = Path(read_header.__code__.co_filename).parents[2]
    code = (
        f"import sys, os; sys.path[:0] = {[str(source), *sys.path]!r}\n"
        "from leadout.errors import ModelFileError\nfrom leadout.models.header import read_header\n"
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "try: read_header('m.gguf')\nexcept ModelFileError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("cannot resolve the model path m.gguf: ")


def test_link_keeps_its_readable_name(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, part in enumerate(write_split_gguf(blobs / "m.gguf", 2)):
        (tmp_path / part.name).symlink_to(part.rename(blobs / f"hash{number}"))
    header = read_header(tmp_path / "m-00001-of-00002.gguf")
    assert [part.name for part in header.parts] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]


def test_missing_file_is_named_with_its_neighbours(tiny: Path) -> None:
    message = complaint(tiny.with_name("other.gguf"))
    assert message.startswith(
        f"no model file at {tiny.with_name('other.gguf')}; {tiny.parent} holds tiny.gguf"
    )


def test_folder_without_models_says_so(tmp_path: Path) -> None:
    assert f"{tmp_path} holds no .gguf file" in complaint(tmp_path / "m.gguf")


def test_many_neighbours_are_counted(tmp_path: Path) -> None:
    for letter in "abcde":
        (tmp_path / f"{letter}.gguf").touch()
    assert "holds a.gguf, b.gguf, c.gguf and 2 more" in complaint(tmp_path / "m.gguf")


def test_tensor_of_an_unknown_type_is_measured_by_its_beginning(tmp_path: Path) -> None:
    body = entry("general.architecture", 8, struct.pack("<Q", 5) + b"llama")
    body += struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 256, 139, 64)
    content = gguf_bytes(n_tensors=1, n_entries=1, body=body)
    content += bytes(-len(content) % 32 + 64)
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert read_header(path).n_params == 256
    path.write_bytes(content[:-1])
    assert "is cut short" in complaint(path)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no'} does not exist" in complaint(tmp_path / "no" / "m.gguf")


def test_broken_link_is_named(tmp_path: Path) -> None:
    link = tmp_path / "m.gguf"
    link.symlink_to(tmp_path / "gone")
    assert f"it is a link to {tmp_path / 'gone'}, which does not exist" in complaint(link)


def test_folder_is_refused_and_its_models_named(tiny: Path) -> None:
    assert "is a folder; give the .gguf file itself" in complaint(tiny.parent)
    assert "holds tiny.gguf" in complaint(tiny.parent)


def test_device_is_refused_without_reading() -> None:
    assert "is not a regular file" in complaint("/dev/zero")


def test_nul_and_overlong_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="NUL character"):
        read_header("a\0b.gguf")
    assert "cannot read" in complaint(tmp_path / ("x" * 300 + ".gguf"))


def test_no_permission_is_said(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "secret.gguf")
    path.chmod(0)
    if os.geteuid() != 0:
        assert "no permission to read" in complaint(path)
        return
    source = Path(read_header.__code__.co_filename).parents[2]
    code = (
        f"import sys, os; sys.path[:0] = {[str(source), *sys.path]!r}\n"
        "from leadout.errors import ModelFileError\nfrom leadout.models.header import read_header\n"
        f"os.setuid(65534)\ntry: read_header({str(path)!r})\nexcept ModelFileError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"no permission to read {path}; ")


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"", "is empty (0 bytes)"),
        (struct.pack("<Q", 40) + b'{"__metadata__":{}}' + bytes(40), "it is a safetensors file"),
        (b"PK\x03\x04" + bytes(30), "it is a zip archive, as PyTorch checkpoints are"),
        (b"\x80\x02}q\x00", "it is a Python pickle"),
        (b"\n<!DOCTYPE html><html>", "it is a web page, saved by a failed download"),
        (b"<html>", "it is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "it is a git-lfs pointer"),
        (b"tjgg\x01\x00\x00\x00", "it is a GGJT file from before GGUF"),
        (b"lmgg\x01\x00\x00\x00", "it is a GGML file from before GGUF"),
        (b"\x1f\x8b\x08\x00", "it is a gzip archive"),
        (b'{"error": "not found"}', "it is JSON text"),
        (b"Entry not found", "it is plain text"),
        (b"\x00\x01\x02\x03\x04", "no known kind of model file"),
        (b"GG", "begins with b'GG', expected b'GGUF'"),
        (gguf_bytes(version=1), "GGUF version 1, from 2023"),
        (gguf_bytes(version=9), "GGUF version 9; versions 2 and 3 are supported"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "it is big-endian"),
        (b"GGUF\x03\x00", "the version would end at byte 8, but the file has 6"),
        (gguf_bytes(n_entries=2**60), "declares 1,152,921,504,606,846,976 metadata entries, too many"),
        (gguf_bytes(n_tensors=2**40), "declares 1,099,511,627,776 tensors, too many"),
        (gguf_bytes(), "it has no general.architecture"),
        (gguf_bytes(n_entries=1, body=entry("k", 77, b"")), "'k' has value type 77"),
        (gguf_bytes(n_entries=1, body=entry("k", 8, struct.pack("<Q", 2**62))), "the value of 'k' declares"),
        (gguf_bytes(n_entries=1, body=entry("k", 8, struct.pack("<Q", 99))), "would end at byte"),
        (gguf_bytes(n_entries=1, body=entry("k", 9, struct.pack("<IQ", 8, 2**61))), "strings, too many for"),
        (gguf_bytes(n_entries=1, body=entry("k", 9, struct.pack("<IQ", 4, 2**61))), "the array 'k' of"),
        (gguf_bytes(n_entries=1, body=entry("k", 9, struct.pack("<IQ", 9, 1))), "array of value type 9"),
        (gguf_bytes(n_entries=1, body=entry("k", 9, struct.pack("<IQQ", 8, 1, 50))), "would end at byte"),
        (
            gguf_bytes(n_entries=1, body=entry("k", 9, struct.pack("<IQQQ", 8, 2, 8, 5))),
            "go on past the file's end",
        ),
        (gguf_bytes(n_entries=2, body=entry("k", 4, bytes(4)) * 2), "the metadata key 'k' occurs twice"),
        (gguf_bytes(n_entries=1, body=struct.pack("<Q", 1) + b"\xff" + bytes(8)), "is not UTF-8 text"),
        (gguf_bytes(n_tensors=1, body=struct.pack("<QI", 0, 9) + bytes(40)), "has 9 dimensions; at most 4"),
        (
            gguf_bytes(n_tensors=2, body=struct.pack("<QIIQ", 0, 0, 0, 0) * 2 + bytes(40)),
            "the tensor '' occurs twice",
        ),
        (
            gguf_bytes(n_entries=1, body=entry("general.alignment", 4, struct.pack("<I", 3))),
            "general.alignment is 3; it must be a power of two",
        ),
        (
            gguf_bytes(n_entries=1, body=entry("general.architecture", 4, struct.pack("<I", 3))),
            "general.architecture is 3, not a text",
        ),
    ],
)
def test_what_is_no_model_is_named(tmp_path: Path, content: bytes, seen: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert seen in complaint(path)


@pytest.mark.parametrize(
    ("key", "kind", "value", "seen"),
    [
        ("llama.block_count", 6, struct.pack("<f", 2), "block_count is 2.0, not a whole number"),
        ("llama.block_count", 5, struct.pack("<i", -2), "block_count is -2, not a whole number"),
        ("tokenizer.ggml.tokens", 4, struct.pack("<I", 1), "tokens is 1, not a list of texts"),
        (
            "tokenizer.ggml.token_type",
            4,
            struct.pack("<I", 1),
            "token_type is 1, not one whole number for each of 0",
        ),
    ],
)
def test_fact_of_another_type_is_refused(
    tmp_path: Path, key: str, kind: int, value: bytes, seen: str
) -> None:
    path = tmp_path / "m.gguf"
    body = entry("general.architecture", 8, struct.pack("<Q", 5) + b"llama") + entry(key, kind, value)
    path.write_bytes(gguf_bytes(n_entries=2, body=body))
    assert seen in complaint(path)


def test_truncated_weights_are_told_with_both_sizes(tiny: Path) -> None:
    whole = tiny.read_bytes()
    tiny.write_bytes(whole[:-1])
    assert f"needs {len(whole):,} bytes, the file has {len(whole) - 1:,}" in complaint(tiny)


def test_whole_file_needs_no_more_than_its_bytes(tmp_path: Path) -> None:
    for kind in ("F32", "F16", "Q8_0"):
        path = write_tiny_gguf(tmp_path / f"{kind}.gguf", tensor_type=kind)
        assert read_header(path).n_bytes == path.stat().st_size


def test_any_part_finds_the_first(tmp_path: Path) -> None:
    parts = write_split_gguf(tmp_path / "m.gguf", 3)
    whole = read_header(write_tiny_gguf(tmp_path / "whole.gguf"))
    for part in parts:
        header = read_header(part)
        assert (header.path, header.parts) == (parts[0], parts)
        assert (header.n_params, header.n_tensors) == (whole.n_params, whole.n_tensors)
        assert header.n_bytes == sum(p.stat().st_size for p in parts)
        assert tuple(header.tokens) == tuple(whole.tokens)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    parts = write_split_gguf(tmp_path / "m.gguf", 3)
    parts[0].unlink()
    parts[2].unlink()
    message = complaint(parts[1])
    assert "is one of 3 parts and 2 of them missing" in message
    assert "m-00001-of-00003.gguf, m-00003-of-00003.gguf" in message


def test_renamed_part_is_told_its_name(tmp_path: Path) -> None:
    renamed = write_split_gguf(tmp_path / "m.gguf", 2)[0].rename(tmp_path / "first.gguf")
    assert "its name does not end in -00001-of-00002.gguf" in complaint(renamed)


def test_truncated_later_part_is_named(tmp_path: Path) -> None:
    first, second = write_split_gguf(tmp_path / "m.gguf", 2)
    second.write_bytes(second.read_bytes()[:-9])
    with pytest.raises(ModelFileError, match=r"00002-of-00002\.gguf is cut short"):
        read_header(first)


def test_parts_of_different_models_are_refused(tmp_path: Path) -> None:
    parts = write_split_gguf(tmp_path / "m.gguf", 2)
    (tmp_path / "other").mkdir()
    write_split_gguf(tmp_path / "other" / "m.gguf", 2, n_layers=5)[1].rename(parts[1])
    assert "its 2 parts hold" in complaint(parts[0])


def outcome(path: Path, content: bytes) -> Header | str:
    """The header, or the one line that says what is wrong; anything else fails the test, slowness too."""
    path.write_bytes(content)
    begun = time.perf_counter()
    found: Header | str
    try:
        found = read_header(path)
        list(found.tokens)
    except ModelFileError as error:
        found = str(error)
    assert time.perf_counter() - begun < 2.0
    assert isinstance(found, Header) or ("\n" not in found and len(found) < 600 + len(str(path)))
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), n_flips=st.integers(1, 8))
def test_flipped_bytes_give_a_header_or_one_clear_error(
    tiny_bytes: bytes, scratch: Path, seed: int, n_flips: int
) -> None:
    chance = random.Random(seed)
    content = bytearray(tiny_bytes)
    for _ in range(n_flips):
        content[chance.randrange(FRONT)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    outcome(scratch, bytes(content))


def test_every_truncation_is_refused(tiny_bytes: bytes, scratch: Path) -> None:
    chance = random.Random(0)
    for length in {
        0,
        1,
        3,
        4,
        23,
        24,
        25,
        len(tiny_bytes) - 1,
        *(chance.randrange(FRONT) for _ in range(300)),
    }:
        assert isinstance(outcome(scratch, tiny_bytes[:length]), str)
    assert isinstance(outcome(scratch, tiny_bytes), Header)


FRONT = 9_000  # bytes that hold nearly all of a tiny file's front part


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "m.gguf"


@pytest.fixture(scope="module")
def tiny_bytes(scratch: Path) -> bytes:
    content = write_tiny_gguf(scratch, tensor_type="Q8_0", n_layers=1).read_bytes()
    assert len(content) > FRONT
    return content


@pytest.mark.model
def test_real_headers_are_read_in_a_blink() -> None:
    path = real_model("qwen2.5-coder-1.5b")
    times = []
    for _ in range(3):
        begun = time.process_time()
        header = read_header(path)
        times.append(time.process_time() - begun)
    assert min(times) < 0.3
    assert (header.architecture, header.n_vocab, header.n_layers, header.n_embd) == (
        "qwen2",
        151_936,
        28,
        1536,
    )
    assert header.tokens[151_644] == "<|im_start|>"
    assert header.token_types is not None
    assert int(np.sum(header.token_types == 5)) == sum(text.startswith("[PAD") for text in header.tokens)


@pytest.mark.model
def test_real_sliding_window_is_seen() -> None:
    header = read_header(real_model("gemma3-270m"))
    assert (header.architecture, header.sliding_window, header.n_vocab) == ("gemma3", 512, 262_144)
