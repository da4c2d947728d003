"""A file's first load, in a process of its own."""

import json
import os
import subprocess
import sys

import gguf
import pytest
from passes import need

from leadout.errors import ModelFileError, ProviderError
from leadout.models.header import read_header
from leadout.models.open import open_model
from leadout.models.options import GgufOptions
from leadout.models.trial import STARTED, Ending, judge, require_sound
from leadout.testing.tiny_gguf import write_tiny_gguf

SMALL = GgufOptions(n_ctx=64, n_threads=1)
FINE = f"{STARTED}\n{json.dumps({'error': '', 'text': ''})}\n"


@pytest.fixture
def model(tmp_path):
    return write_tiny_gguf(tmp_path / "model.gguf")


@pytest.fixture
def header(model):
    return read_header(model)


def damage(path, key, value):
    """Overwrite a number of the file's metadata in place."""
    reader = gguf.GGUFReader(path, "r+")
    field = reader.fields[key]
    field.parts[field.data[0]][0] = value
    reader.data.flush()
    return path


DAMAGES = [
    ("llama.attention.layer_norm_rms_epsilon", float("nan")),
    ("llama.attention.layer_norm_rms_epsilon", -1.0),
    ("llama.attention.key_length", 7),
    ("llama.rope.dimension_count", 3),
    ("llama.block_count", 1000),
    ("llama.attention.head_count_kv", 2**31),
]


@pytest.mark.parametrize(("key", "value"), DAMAGES)
def test_a_wrong_number_in_the_header_is_an_error_not_the_end(model, provider, key, value):
    damage(model, key, value)
    with pytest.raises(ModelFileError) as raised:
        open_model(model, provider=provider, options=SMALL)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 900


def test_the_error_names_signal_words_and_next_step(model, provider):
    damage(model, "llama.attention.layer_norm_rms_epsilon", -1.0)
    other = {"ik": "llama", "llama": "ik"}[provider]
    message = (
        rf"{provider} provider was ended by SIGABRT on .*model\.gguf in a trial \(\S+ GGML_ASSERT\(eps .*"
    )
    with pytest.raises(ModelFileError, match=rf"{message}fetch it again or use --provider {other}"):
        open_model(model, provider=provider, options=SMALL)


def test_a_token_that_occurs_twice_is_an_error_not_the_end(tmp_path, provider):
    path = write_tiny_gguf(tmp_path / "twice.gguf", tokens={9: "twin", 10: "twin"})
    with pytest.raises(ModelFileError, match=r"ended by SIGABRT .*id_to_token"):
        open_model(path, provider=provider, options=SMALL)


def test_a_tensor_type_llama_does_not_know_is_named(model):
    need("llama")
    reader = gguf.GGUFReader(model, "r+")
    reader.tensors[0].field.parts[4][0] = 256
    reader.data.flush()
    with pytest.raises(
        ProviderError, match=r"llama provider does not know tensor type 256 of .*--provider ik"
    ):
        open_model(model, provider="llama", options=SMALL)
    need("ik")
    with pytest.raises(ModelFileError, match="the ik provider was ended by SIG"):
        open_model(model, provider="ik", options=SMALL)


def test_auto_takes_llama_where_ik_dies_and_keeps_the_reason(model):
    need("ik")
    need("llama")
    damage(model, "llama.attention.layer_norm_rms_epsilon", 0.0)  # llama.cpp allows that
    opened = open_model(model, options=SMALL)
    assert opened.info.provider == "llama"
    assert opened.info.provider_reason.startswith("not ik: the ik provider was ended by SIGABRT on ")
    opened.close()


def test_what_was_fine_is_not_tried_again(header, tmp_path, provider):
    need(provider)
    folder = tmp_path / "trials"
    require_sound(header, SMALL, provider, folder)
    (remembered,) = folder.iterdir()
    written = remembered.stat().st_mtime_ns
    require_sound(header, SMALL, provider, folder)
    require_sound(header, GgufOptions(n_ctx=32, n_slots=3, n_threads=2, use_mlock=True), provider, folder)
    assert [file.stat().st_mtime_ns for file in folder.iterdir()] == [written]
    require_sound(header, GgufOptions(kv_type_k="q4_0", flash_attn="off"), "llama", folder)
    assert len(list(folder.iterdir())) == 2


def test_a_changed_file_is_tried_again(model, tmp_path, provider):
    need(provider)
    folder = tmp_path / "trials"
    require_sound(read_header(model), SMALL, provider, folder)
    damage(model, "llama.attention.layer_norm_rms_epsilon", -1.0)
    for _ in range(2):  # nothing bad is remembered
        with pytest.raises(ModelFileError, match="SIGABRT"):
            require_sound(read_header(model), SMALL, provider, folder)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_trial_works_whatever_streams_are_closed(model, tmp_path, provider, closed):
    code = (
        "import sys, pathlib\n"
        "from leadout.models.header import read_header\n"
        "from leadout.models.options import GgufOptions\n"
        "from leadout.models.trial import require_sound\n"
        "header, folder = read_header(sys.argv[1]), pathlib.Path(sys.argv[3])\n"
        "require_sound(header, GgufOptions(n_ctx=64), sys.argv[2], folder)\n"
    )
    folder = tmp_path / "trials"
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", code, model, provider, folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert len(list(folder.iterdir())) == 1


def test_a_trial_does_not_read_our_input(model, tmp_path, provider):
    code = (
        "import sys\n"
        "from leadout.models.open import open_model\n"
        "open_model(sys.argv[1], provider=sys.argv[2]).close()\n"
        "print(sys.stdin.read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, model, provider],
        input="ours",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LEADOUT_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "ours\n"
    assert done.stderr == ""


def test_without_a_python_to_start_there_is_no_trial(model, tmp_path, provider):
    code = (
        "import sys\n"
        "sys.executable = sys.argv[3]\n"
        "from leadout.models.open import open_model\n"
        "open_model(sys.argv[1], provider=sys.argv[2]).close()\n"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "LEADOUT_CACHE": str(tmp_path / "cache")}
    for executable in ("", "/nowhere/python", "/bin/false"):
        subprocess.run(
            [sys.executable, "-c", code, model, provider, executable],
            env={**os.environ, **environment},
            timeout=60,
            check=True,
        )
    assert not (tmp_path / "cache" / "trials").exists()


@pytest.mark.parametrize(
    ("ending", "error", "message"),
    [
        (Ending(code=-4, said=STARTED + "\n", words=""), ProviderError, r"built for another CPU.*\(SIGILL\)"),
        (Ending(code=-9, said=STARTED + "\n", words=""), ProviderError, r"\(SIGKILL\).*want of memory"),
        (Ending(code=-8, said=STARTED + "\n", words=""), ModelFileError, "SIGFPE on .*it gave no reason"),
        (
            Ending(code=1, said=STARTED + "\n", words="Traceback\nValueError: no"),
            ModelFileError,
            "exit code 1 .*no",
        ),
        (
            Ending(code=-6, said=STARTED + "\n", words="/a/b.cpp:7: GGML_ASSERT(x) failed\n#1 0x0\n[done]\n"),
            ModelFileError,
            r"SIGABRT .* \(b\.cpp:7: GGML_ASSERT\(x\) failed\): the file is damaged",
        ),
        (
            Ending(code=0, said=f'{STARTED}\n{{"error": "ProviderError", "text": "no"}}', words=""),
            ProviderError,
            "^no$",
        ),
        (
            Ending(code=0, said=f'{STARTED}\n{{"error": "BackendError", "text": "n"}}', words=""),
            ModelFileError,
            "^n$",
        ),
    ],
)
def test_an_ending_is_told_in_words(header, ending, error, message):
    with pytest.raises(error, match=message):
        judge(ending, header, "ik")


def test_only_a_trial_that_ended_well_counts(header):
    assert judge(Ending(code=0, said=FINE, words=""), header, "ik")
    for code in (1, -4, -6, 0):
        assert not judge(Ending(code=code, said="", words="No module named leadout"), header, "ik")
    for number in (2, 15):  # someone ended it
        assert not judge(Ending(code=-number, said=f"{STARTED}\n", words=""), header, "ik")
