"""`leadout launch`, in a process of its own."""

import json
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from commands import assert_one_line, leadout, start

sys.path.append(str(Path(__file__).parents[1] / "launch"))
from programs import write_llama_server


@pytest.fixture
def llama_server(tmp_path):
    return write_llama_server(tmp_path / "llama-server")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_dry_run_prints_a_script_and_starts_nothing(tiny, tiny_draft, llama_server):
    done = leadout(
        "launch", "llama-server", tiny, "--draft", tiny_draft, "--program", llama_server, "--dry-run"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "#!/bin/sh\n# llama-server 0.6.0-dev (installed), answers at http://127.0.0.1:8080\n"
    )
    assert "# the draft's vocabulary is compatible" in done.stdout
    assert "--spec-type draft-simple --spec-draft-n-max 3 --spec-draft-p-min 0.5" in done.stdout


def test_json_has_the_same_command(tiny, llama_server):
    shown = leadout(
        "launch",
        "llama-server",
        tiny,
        "--draft",
        "ngram",
        "--program",
        llama_server,
        "--dry-run",
        "--json",
        "--port",
        "9",
    )
    made = json.loads(shown.stdout)
    assert made["argv"][-2:] == ["--spec-type", "ngram-mod"]
    assert (made["url"], made["installed"], made["version"]) == ("http://127.0.0.1:9", True, "0.6.0-dev")


def test_dry_run_without_the_engine_states_the_version_it_is_for(tmp_path):
    done = leadout("launch", "vllm", "some/model", "--draft", "ngram", "--dry-run", PATH=str(tmp_path))
    assert "# vLLM 0.33.0 (assumed)" in done.stdout
    assert "# warning: written for vLLM 0.33.0 without asking an installed one" in done.stdout


def test_other_version_can_be_asked_for():
    done = leadout("launch", "vllm", "a/b", "--draft", "c/d", "--for-version", "0.28.0", "--dry-run")
    assert "# vLLM 0.28.0 (assumed)" in done.stdout
    assert "--per-request-spec-decode-metrics" not in done.stdout
    done = leadout("launch", "vllm", "a/b", "--draft", "c/d", "--for-version", "0.14.1", "--dry-run")
    assert_one_line(done, 2, "vLLM 0.14.1 has no draft models")


def test_engine_is_started_and_ended_with_ctrl_c(tiny, llama_server):
    port = free_port()
    running = start(
        "launch", "llama-server", tiny, "--program", llama_server, "--port", str(port), HF_TOKEN="s3cret"
    )
    heard = b""
    while b"ready at" not in heard:
        piece = running.stderr.read(4096)
        assert piece, heard
        heard += piece
    running.send_signal(signal.SIGINT)
    out, rest = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out.startswith(b"engine ")
    assert b"s3cret" not in heard + rest
    with pytest.raises(OSError, match=r"."), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_engine_ends_with_the_command_that_started_it(tiny, llama_server):
    port = free_port()
    running = start("launch", "llama-server", tiny, "--program", llama_server, "--port", str(port))
    heard = b""
    while b"ready at" not in heard:
        heard += running.stderr.read(4096)
    running.terminate()
    running.communicate(timeout=60)
    time.sleep(0.1)
    with pytest.raises(OSError, match=r"."), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_files_are_written(tiny, llama_server, tmp_path):
    out = tmp_path / "deploy"
    done = leadout(
        "launch", "llama-server", tiny, "--draft", "ngram", "--program", llama_server, "--write", out
    )
    assert done.returncode == 0, done.stderr
    names = {"run.sh", "leadout-llama-server.service", "compose.yaml", "kubernetes.yaml"}
    assert {file.name for file in out.iterdir()} == names
    assert all(f"wrote {out / name}" in done.stderr for name in names)


def test_port_in_use(tiny, llama_server):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = str(listening.getsockname()[1])
        done = leadout("launch", "llama-server", tiny, "--program", llama_server, "--port", port)
    assert done.returncode == 2
    assert f"leadout: port {port} of 127.0.0.1 is in use already" in done.stderr


def test_engine_that_ends_at_once(tiny, tmp_path):
    broken = write_llama_server(tmp_path / "llama-server")
    broken.write_text(
        broken.read_text().replace("import http.server", "raise SystemExit(9)\nimport http.server")
    )
    done = leadout("launch", "llama-server", tiny, "--program", broken, "--port", str(free_port()))
    assert done.returncode == 1
    assert "leadout: llama-server ended with code 9 before it was ready" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("vlm", "x"), "'vlm' is no engine that leadout can launch; did you mean vllm?"),
        (("vllm", "a/b", "--draft", "auto", "--dry-run"), "--draft auto is leadout's own engine's"),
        (("vllm", "a/b", "--draft", "", "--dry-run"), "--draft is empty"),
        (("vllm", "a/b", "-k", "3", "--dry-run"), "-k can only be given with drafts"),
        (("vllm", "a/b", "--draft", "ngram", "-k", "0", "--dry-run"), "k is 0"),
        (("ollama", "a", "--draft", "ngram", "--dry-run"), "Ollama cannot draft with ngram"),
        (("llama-server", "a.gguf", "--draft", "suffix", "--dry-run"), "llama-server cannot draft with suffix"),  # noqa: E501
        (("llama-server", "missing.gguf", "--dry-run"), "missing.gguf does not exist"),
        (("vllm", "a/b", "--probe", "--dry-run"), "--probe needs the engine to run"),
        (("vllm", "a/b", "--json"), "--json shows what would be run; give it with --dry-run"),
        (("vllm", "a/b", "--for-version", "0.33.0"), "give it with --dry-run or --write"),
        (("vllm", "a/b", "--for-version", "new", "--dry-run"), "--for-version is 'new'"),
        (("vllm", "a/b", "--dry-run", "--", "--speculative-model", "d"), "--speculative-model: the flag of 0.5 to 0.8"),  # noqa: E501
        (("sglang", "a/b", "--dry-run", "--", "--speculative-draft-model-path", "d"), "ignores it without a word"),  # noqa: E501
        (("vllm", "a/b", "--program", "/no/such", "--dry-run"), "/no/such is not installed here or not on PATH"),  # noqa: E501
    ],
)  # fmt: skip
def test_mistake_is_one_line(arguments, said):
    assert_one_line(leadout("launch", *arguments), 2, said)


def test_invented_variable_is_refused():
    done = leadout("launch", "ollama", "qwen2.5:7b", "--dry-run", OLLAMA_SPECULATIVE_MODEL="qwen2.5:0.5b")
    assert_one_line(done, 2, "OLLAMA_SPECULATIVE_MODEL: Ollama has no such variable", "DRAFT <path>")


def test_missing_engine_says_how_to_install_it(tmp_path):
    done = leadout("launch", "vllm", "a/b", PATH=str(tmp_path))
    assert_one_line(done, 2, "vllm is not installed here", "pip install vllm", "--dry-run")


def test_other_vocabulary_is_refused_before_the_engine_is_asked(tiny, tmp_path):
    from leadout.testing.tiny_gguf import write_tiny_gguf

    other = write_tiny_gguf(tmp_path / "other.gguf", architecture="gemma3")
    done = leadout("launch", "llama-server", tiny, "--draft", other, "--dry-run")
    assert_one_line(done, 2, "answer at plain speed and say nothing", "of another vocabulary")


def test_engine_that_cannot_be_probed_is_ended(tiny, llama_server):
    port = free_port()
    done = leadout("launch", "llama-server", tiny, "--program", llama_server, "--port", str(port), "--probe")
    assert done.returncode == 1, done.stderr
    assert f"ready at http://127.0.0.1:{port}" in done.stderr
    with pytest.raises(OSError, match=r"."), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_what_rounds_taught_of_a_pair_decides_k(tiny, tiny_draft, llama_server, tmp_path):
    from leadout.advise.known import remember_rounds
    from leadout.core.cost import CostTable
    from leadout.core.estimate import AcceptanceModel
    from leadout.engine.memory import Confidences, Memory
    from leadout.engine.profile import Profile
    from leadout.models.options import GgufOptions
    from leadout.models.remember import Findings

    memory = Memory(profile=Profile(CostTable(widths=((1, 1.0), (16, 1.1)), draft_s=0.01)))
    memory.acceptance["draft"], memory.confidences["draft"] = AcceptanceModel(), Confidences()
    remember_rounds(tiny, tiny_draft, GgufOptions(), memory, Findings("pairs", tmp_path / "pairs"))
    done = leadout(
        "launch", "llama-server", tiny, "--draft", tiny_draft, "--program", llama_server, "--dry-run",
        LEADOUT_CACHE=str(tmp_path),
    )  # fmt: skip
    assert "by leadout's own rounds of this pair on this machine" in done.stdout
    assert "--spec-draft-n-max 3 " not in done.stdout
