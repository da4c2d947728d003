"""A user's mistake costs one clear line and exit code 2: no traceback, nothing on standard output."""

import json
import shutil
import subprocess
import sys

import pytest
from commands import COMMAND, assert_one_line, environment, leadout

from leadout.testing.tiny_gguf import write_split_gguf, write_tiny_gguf

ASK = ("-p", "hello", "--max-tokens", "4")


def test_missing_file_is_named_with_its_whole_path(folder):
    assert_one_line(leadout("run", folder / "no.gguf", *ASK), 2, str(folder / "no.gguf"), "does not exist")


def test_file_of_another_kind_is_refused(folder):
    other = folder / "other.gguf"
    other.write_bytes(b"PK\x03\x04" + bytes(100))
    assert_one_line(leadout("run", other, *ASK), 2, str(other), "GGUF")


def test_truncated_file_is_refused(folder, tiny):
    cut = folder / "cut.gguf"
    cut.write_bytes(tiny.read_bytes()[:-5000])
    assert_one_line(leadout("run", cut, *ASK), 2, str(cut), "bytes")


def test_missing_part_of_a_split_model_is_named(folder):
    parts = write_split_gguf(folder / "split.gguf", 3)
    parts[1].unlink()
    assert_one_line(leadout("run", parts[0], *ASK), 2, str(parts[1]), "missing")


def test_draft_with_another_vocabulary_drafts_over_a_bridge_and_says_so(folder, tiny):
    other = write_tiny_gguf(folder / "other vocabulary.gguf", tokenizer="bpe")
    done = leadout("run", tiny, *ASK, "--draft", other)
    assert done.returncode == 0
    assert "the draft model is of another vocabulary that has" in done.stderr
    assert "it drafts by" in done.stderr


def test_prompt_longer_than_the_context_gives_both_numbers(tiny):
    done = leadout("run", tiny, "--draft", "none", "--raw", "-p", "a b c d e f " * 20, "--ctx", "16")
    assert_one_line(done, 2, "the prompt has 222 tokens", "a context of 16")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--temperature", "-1"), "temperature is -1.0; it must be a number >= 0"),
        (("--top-p", "0"), "top_p is 0.0; it must be a number in (0, 1]"),
        (("--max-tokens", "0"), "max_tokens is 0; it must be a whole number >= 1"),
        (("--ctx", "1"), "n_ctx is 1; it must be a whole number >= 8"),
        (("-k", "99", "--draft", "ngram"), "k is 99; it must be a whole number in 0..64"),
        (("--logit-bias", "13"), "logit bias '13' is not ID=BIAS"),
        (("--verification", "coupled"), "verification coupled needs a seed"),
        (("--raw", "--system", "x"), "--system needs the chat template"),
        (("--json", "--show-drafts"), "--show-drafts colours text"),
        (("--logprobs", "2"), "add --json"),
        (("--prompt-file", "x"), "two prompts"),
        (("--temprature", "1"), "No such option: --temprature (Possible options: --temperature"),
        (("--schedule", "sometimes"), "'sometimes' is not one of 'auto', 'fixed', 'step', 'threshold'"),
        (("--top-k", "many"), "Invalid value for '--top-k'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_value_says_what_is_allowed(tiny, arguments, said):
    assert_one_line(leadout("run", tiny, "-p", "hello", *arguments), 2, said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--draft", "none", "--draft-ctx", "64"),
            "--draft-ctx can only be given with a draft model, but --draft is none",
        ),
        (
            ("--draft", "ngram", "--draft-threads", "1", "--draft-kv-type-v", "f32"),
            "--draft-threads, --draft-kv-type-v can only be given with a draft model, but --draft is ngram",
        ),
        (("--draft", "ngram", "--draft-gpu-layers", "0"), "--draft-gpu-layers can only"),
        (("--draft", "none", "--draft-kv-type-k", "f16"), "--draft-kv-type-k can only"),
        (("--draft", "none", "-k", "8"), "-k can only be given with drafts, but --draft is none"),
        (
            ("--draft", "none", "-k", "8", "--schedule", "step"),
            "-k, --schedule can only be given with drafts",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_option_that_would_be_ignored_is_refused_by_name(tiny, command, arguments, said):
    prompt = ("-p", "hello") if command == "run" else ()
    assert_one_line(leadout(command, tiny, *prompt, *arguments), 2, said)


def test_proof_refuses_options_of_a_draft_model_that_is_not_there(tiny):
    assert_one_line(
        leadout("prove", tiny, "--draft-ctx", "64"), 2, "--draft-ctx can only", "--draft is ngram"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "./none.gguf", "-p", "x"),
        ("check", "./none.gguf", "./none.gguf"),
        ("pick", "./none.gguf"),
        ("plan", "./none.gguf", "--slots", "0"),
        ("tune", "./none.gguf"),
        ("prove", "./none.gguf", "--draft", "none"),
        ("bench", "./none.gguf", "--vs", "nothing"),
        ("models", "--no-such-option"),
    ],
    ids=" ".join,
)
def test_with_json_an_error_is_one_object_too(arguments):
    done = leadout(*arguments, "--json")
    assert_one_line(done, 2)
    assert json.loads(done.stdout)["exit_code"] == 2
    assert leadout(*arguments, "--", "--json").stdout == ""  # there it is no option


def test_a_folder_is_refused_as_a_record_before_anything_is_measured(tiny, tmp_path):
    done = leadout("bench", tiny, "--out", tmp_path)
    assert_one_line(done, 2, "which is a folder; name a file in it")
    assert list(tmp_path.iterdir()) == []


def test_no_prompt_says_how_to_give_one(tiny):
    assert_one_line(leadout("run", tiny), 2, "-p TEXT", "--prompt-file FILE")


def test_prompt_that_is_not_text_is_refused(tiny, folder):
    (folder / "bytes.txt").write_bytes(b"ab\xff")
    said = "is not UTF-8 text: byte 0xff at offset 2"
    assert_one_line(leadout("run", tiny, "--prompt-file", folder / "bytes.txt"), 2, said)
    assert_one_line(leadout("run", tiny, "-p", "-", input=b"ab\xff"), 2, "standard input " + said)
    assert_one_line(leadout("run", tiny, "--prompt-file", folder / "none.txt"), 2, "none.txt: No such file")


def test_unknown_names_suggest_the_nearest(tmp_path):
    cache = {"LEADOUT_CACHE": str(tmp_path)}
    assert_one_line(
        leadout("run", "smollm2-153m", *ASK, **cache), 2, "'smollm2-153m'", "nearest: smollm2-135m"
    )
    assert_one_line(leadout("rnu"), 2, "No such command 'rnu'", "run")
    assert_one_line(leadout("demo", "--pair", "qwen9", **cache), 2, "'qwen9'", "qwen2.5-coder")


def test_offline_without_the_file_says_so(tmp_path):
    done = leadout("run", "smollm2-135m", "--offline", *ASK, LEADOUT_CACHE=str(tmp_path))
    assert_one_line(done, 2, "smollm2-135m", "offline")


def test_file_with_another_hash_is_refused(tmp_path):
    file = tmp_path / "models" / "smollm2-135m" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.parent.mkdir(parents=True)
    with file.open("wb") as out:
        out.truncate(98_362_432)
    done = leadout("pull", "smollm2-135m", "--offline", LEADOUT_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "SHA-256" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_full_disk_is_told_before_anything_is_fetched(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to mount a small disk for one process")
    mount = [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        'mount -t tmpfs -o size=1m tmpfs "$0" && "$@"',
    ]
    done = subprocess.run(
        [*mount, tmp_path, *COMMAND, "pull", "smollm2-135m"],
        capture_output=True, text=True, timeout=60, check=False, env=environment(LEADOUT_CACHE=str(tmp_path)),
    )  # fmt: skip
    if "leadout" not in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    assert_one_line(done, 2, "bytes are needed, 1,048,576 are free")


def test_debug_shows_the_traceback(tiny):
    by_option = leadout("--debug", "run", tiny, "-p", "x", "--ctx", "1")
    by_variable = leadout("run", tiny, "-p", "x", "--ctx", "1", LEADOUT_DEBUG="1")
    for done in (by_option, by_variable):
        assert done.returncode == 2
        assert "Traceback" in done.stderr
        assert "InputError" in done.stderr


def test_command_without_arguments_shows_the_help():
    done = leadout()
    assert "Usage: leadout" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert sys.executable not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "~nobody-here/receipt.json"),
        ("serve", "{tiny}", "--api-key-file", "~nobody-here/keys"),
        ("serve", "--models", "~nobody-here/models"),
        ("run", "{tiny}", "--prompt-file", "~nobody-here/prompt"),
        ("run", "{tiny}", "-p", "a", "--schema", "~nobody-here/schema.json"),
        ("run", "~nobody-here/model.gguf", "-p", "a"),
        ("launch", "vllm", "~nobody-here/model", "--for-version", "0.11.0", "--dry-run"),
    ],
    ids=" ".join,
)
def test_home_folder_of_nobody_is_named(tiny, arguments):
    given = [each.format(tiny=tiny) for each in arguments]
    assert_one_line(leadout(*given), 2, "~nobody-here/", "write the whole path")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "Missing argument 'TARGET', such as smollm2-135m (`leadout models` lists names); "),
        (("check", "smollm2-135m"), "Missing argument 'DRAFT', such as smollm2-135m"),
        (("probe",), "Missing argument 'URL'; `leadout probe --help` tells what is needed"),
    ],
)
def test_a_missing_argument_is_told_with_an_example(arguments, said):
    assert_one_line(leadout(*arguments), 2, said)
