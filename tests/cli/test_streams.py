"""Standard streams that are closed or full, and a working folder that is gone."""

import os
import subprocess
from pathlib import Path

import pytest
from commands import COMMAND, environment

import leadout

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and a POSIX shell")

ASK = ("-p", "hello", "--max-tokens", "4", "--threads", "1", "--temperature", "0")
FULL = "leadout: cannot write the output: No space left on device\n"


def in_shell(redirection, *arguments, input=b"hello\n", **options):
    """Run `leadout` from a shell that redirects its streams; gives exit code, output and errors."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *COMMAND, *map(str, arguments)],
        input=input, capture_output=True, timeout=120, check=False,
        env=environment(PYTHONPATH=str(Path(leadout.__file__).parents[1])), **options,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def answer(tiny):
    code, out, _ = in_shell("", "run", tiny, *ASK)
    assert code == 0
    assert out
    return out


def test_closed_input_is_a_mistake_where_it_is_to_be_read(tiny, answer):
    code, out, err = in_shell("<&-", "run", tiny, "-p", "-")
    assert (code, out) == (2, "")
    assert err == "leadout: standard input is closed; give the prompt with -p TEXT or --prompt-file FILE\n"
    code, out, err = in_shell("<&-", "chat", tiny)
    assert (code, out) == (2, "")
    assert err.startswith("leadout: standard input is closed, so there is nothing to answer")
    assert in_shell("<&-", "run", tiny, *ASK, "-q") == (0, answer, "")


@pytest.mark.parametrize("command", [("run", "t", *ASK), ("chat", "t"), ("models",), ("--version",)])
def test_closed_output_is_told_before_anything_is_loaded(command):
    said = "leadout: standard output is closed; send it to a file or to /dev/null\n"
    assert in_shell(">&-", *command) == (2, "", said)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_errors_that_cannot_be_written_leave_answer_and_exit_code_alone(tiny, answer, redirection):
    assert in_shell(redirection, "run", tiny, *ASK) == (0, answer, "")
    assert in_shell(redirection, "run", "./nowhere.gguf", *ASK) == (2, "", "")
    assert in_shell(redirection, "--debug", "run", "./nowhere.gguf", *ASK) == (2, "", "")
    assert in_shell(redirection, "rnu") == (2, "", "")


def test_no_stream_at_all_is_still_an_exit_code(tiny):
    assert in_shell("<&- >&- 2>&-", "run", tiny, *ASK) == (2, "", "")


@pytest.mark.parametrize("extra", [(), ("--json",), ("--show-drafts", "--draft", "ngram")])
def test_full_output_is_one_line_and_a_failure(tiny, extra):
    code, out, err = in_shell(">/dev/full", "run", tiny, *ASK, *extra)
    assert (code, out) == (1, "")
    assert err.endswith(FULL)
    assert "report" not in err


@pytest.mark.parametrize("command", [("models",), ("--version",), ("--help",), ("run", "--help")])
def test_full_output_fails_every_command(command):
    assert in_shell(">/dev/full", *command) == (1, "", FULL)


def test_full_output_ends_a_chat(tiny):
    code, out, err = in_shell(">/dev/full", "chat", tiny, "--max-tokens", "2", "--threads", "1", "-q")
    assert (code, out, err) == (1, "", FULL)


def test_removed_working_folder_hurts_relative_paths_alone(tiny, answer, tmp_path):
    def from_nowhere(target):
        gone = tmp_path / "gone"
        gone.mkdir()
        return subprocess.run(
            ["sh", "-c", 'rmdir "$PWD"; "$@"', "sh", *COMMAND, "run", str(target), *ASK, "-q"],
            cwd=gone, capture_output=True, timeout=120, check=False,
            env=environment(PYTHONPATH=str(Path(leadout.__file__).parents[1])),
        )  # fmt: skip

    found, missing = from_nowhere(tiny), from_nowhere(f".{os.sep}m.gguf")
    assert (found.returncode, found.stdout.decode()) == (0, answer)
    assert (missing.returncode, missing.stdout) == (2, b"")
    assert missing.stderr.startswith(b"leadout: model file ./m.gguf: the working folder cannot be found")


def test_a_user_without_a_home_is_told_what_to_set_and_can_do_everything_then(tiny, tmp_path):
    nobody = ["unshare", "-U", "--map-user=12345"]  # a number that no list of users has
    without = {
        "HOME",
        "LEADOUT_CACHE",
        "HF_HOME",
        "HF_HUB_CACHE",
        "XDG_CACHE_HOME",
        "OLLAMA_MODELS",
        "LLAMA_CACHE",
    }
    kept = {name: value for name, value in environment().items() if name not in without}
    try:
        subprocess.run([*nobody, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare, and to be allowed to use it")

    def as_nobody(*arguments, **variables):
        return subprocess.run(
            [*nobody, *COMMAND, *map(str, arguments)],
            capture_output=True, timeout=120, check=False,
            env=kept | {"PYTHONPATH": str(Path(leadout.__file__).parents[1])} | variables,
        )  # fmt: skip

    told = as_nobody("run", tiny, *ASK)
    assert (told.returncode, told.stdout) == (2, b"")
    assert told.stderr == (
        b"leadout: this user has no home folder to keep a cache in; set LEADOUT_CACHE to a folder\n"
    )
    for command in (("run", tiny, *ASK, "--draft", "auto"), ("models",), ("pick", tiny, "--threads", "1")):
        done = as_nobody(*command, LEADOUT_CACHE=str(tmp_path))
        assert done.returncode in (0, 3), done.stderr
        assert b"unexpected" not in done.stderr
