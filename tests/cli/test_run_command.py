"""`leadout run`: what is printed, where, and that drafts change nothing but the speed."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from commands import JSON_KEYS, leadout, lines_told, start

import leadout as leadout_package

ONE = ("--threads", "1")


def test_seeded_text_is_the_same_with_and_without_drafts(tiny, tiny_draft):
    ask = (
        "run",
        tiny,
        *ONE,
        "-p",
        "one two three",
        "--max-tokens",
        "24",
        "--seed",
        "7",
        "--json",
    )
    answers = [leadout(*ask, "--draft", "none")]
    answers += [leadout(*ask, "--draft", draft, "--schedule", "fixed") for draft in ("ngram", tiny_draft)]
    results = [json.loads(answer.stdout) for answer in answers]
    assert len({result["text"] for result in results}) == 1
    assert results[0]["drafted"] == 0
    assert results[2]["drafted"] > 0
    assert [result["speculation"]["enabled"] for result in results] == [False, True, True]
    for answer, result in zip(answers, results, strict=True):
        assert answer.stderr == ""
        assert list(result)[: len(JSON_KEYS)] == JSON_KEYS
        assert list(result["speculation"]) == ["enabled", "reason", "drafter", "verification"]


def test_text_goes_to_stdout_and_the_closing_line_to_stderr(tiny):
    ask = (
        "run",
        tiny,
        *ONE,
        "--raw",
        "-p",
        "one two",
        "--max-tokens",
        "12",
        "--temperature",
        "0",
        "--draft",
        "ngram",
    )
    done, quiet = leadout(*ask), leadout(*ask, "--quiet")
    as_json = json.loads(leadout(*ask, "--json").stdout)
    assert done.returncode == 0
    assert done.stdout.rstrip("\n") == as_json["text"].rstrip("\n")
    assert done.stdout.endswith("\n")
    opening, closing = lines_told(done.stderr)
    assert "speculation on" in opening
    for part in ("12 tokens", "tok/s", "tokens per target pass", "cached", "speculation on: draft ngram"):
        assert part in closing
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")


def test_prompt_comes_from_an_option_a_pipe_or_a_file(tiny, folder):
    file = folder / "приглашение.txt"
    file.write_text("one two", encoding="utf-8")
    end = ("--raw", "--max-tokens", "8", "--temperature", "0", "--json")
    ways = [
        leadout("run", tiny, *ONE, "-p", "one two", *end),
        leadout("run", tiny, *ONE, "-p", "-", *end, input="one two"),
        leadout("run", tiny, *ONE, "--prompt-file", file, *end),
    ]
    assert len({json.loads(way.stdout)["text"] for way in ways}) == 1


def test_an_empty_system_message_is_one(tiny):
    ask = ("run", tiny, *ONE, "-p", "one", "--max-tokens", "1", "--json")
    with_it, without = json.loads(leadout(*ask, "--system", "").stdout), json.loads(leadout(*ask).stdout)
    assert with_it["prompt_tokens"] > without["prompt_tokens"]


def test_drafting_nothing_is_reported_as_off(tiny):
    done = leadout(
        "run", tiny, *ONE, "-p", "one", "--max-tokens", "1", "--draft", "ngram", "-k", "0", "--json"
    )
    speculation = json.loads(done.stdout)["speculation"]
    assert (speculation["enabled"], speculation["reason"]) == (
        False,
        "off: nothing may be drafted, as k is 0",
    )


def test_several_answers_are_told_apart(tiny):
    ask = ("run", tiny, *ONE, "-p", "one", "--n", "2", "--max-tokens", "6", "--seed", "3")
    done, as_json = leadout(*ask), json.loads(leadout(*ask, "--json", "--logprobs", "2").stdout)
    first, second = as_json["choices"]
    assert first["text"] != second["text"]
    assert len(first["logprobs"]) == first["completion_tokens"]
    assert done.stdout.index("--- answer 1 of 2 ---") < done.stdout.index("--- answer 2 of 2 ---")


def test_show_drafts_marks_or_colours_every_origin(tiny, tiny_draft):
    ask = (
        "run",
        tiny,
        *ONE,
        "-p",
        "one two",
        "--max-tokens",
        "40",
        "--temperature",
        "0",
        "--draft",
        tiny_draft,
        "--schedule",
        "fixed",
    )
    plain = leadout(*ask, "-q").stdout.rstrip("\n")
    marked = leadout(*ask, "--show-drafts")
    assert "[accepted] <corrected> {bonus} plain" in marked.stderr
    assert len(marked.stdout) > len(plain)
    coloured = leadout(*ask, "--show-drafts", FORCE_COLOR="1", TERM="xterm")
    assert "\x1b[32m" in coloured.stdout
    assert "accepted" in coloured.stderr
    without = leadout(*ask, "--show-drafts", NO_COLOR="1")
    assert "\x1b" not in without.stdout + without.stderr


def test_an_answer_without_drafts_has_no_legend_and_says_why(tiny):
    ask = ("run", tiny, *ONE, "-p", "one", "--max-tokens", "2", "--draft", "ngram", "-k", "3")
    done = leadout(*ask, "--show-drafts", "--schedule", "fixed")
    assert "nothing was drafted: it ended before the first draft" in done.stderr.splitlines()[-1]
    assert "corrected" not in done.stderr


@pytest.mark.parametrize(
    "changes", [{"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}]
)
def test_consoles_with_few_letters_never_fail(tiny, changes):
    ask = ("run", tiny, *ONE, "-p", "жук 龜", "--max-tokens", "40", "--temperature", "2", "--seed", "1")
    done = leadout(*ask, "--show-drafts", **changes)
    assert done.returncode == 0, done.stderr
    unharmed = json.loads(leadout(*ask, "--json").stdout)
    assert json.loads(leadout(*ask, "--json", **changes).stdout)["text"] == unharmed["text"]
    assert leadout("--help", **changes).returncode == 0
    assert leadout("models", **changes).returncode == 0


def test_interrupt_ends_cleanly_with_the_closing_line(tiny):
    process = start(
        "run",
        tiny,
        *ONE,
        "--raw",
        "-p",
        "one",
        "--ctx",
        "60000",
        "--logit-bias",
        "2=-100",
        "--draft",
        "ngram",
    )
    seen = 0
    while seen < 500:
        seen += len(process.stdout.read(500 - seen))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"tok/s" in err.splitlines()[-1]
    assert out


def test_interrupt_while_starting_ends_quietly(tmp_path):
    """As if Ctrl-C were pressed when the first package of those that take long is imported."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    own = str(Path(leadout_package.__file__).parents[1])
    done = leadout("--version", PYTHONPATH=f"{tmp_path}{os.pathsep}{own}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_closed_pipe_ends_quietly(tiny):
    process = start("run", tiny, *ONE, "--raw", "-p", "one", "--ctx", "60000", "--logit-bias", "2=-100", "-q")
    seen = 0
    while seen < 500:
        seen += len(process.stdout.read(500 - seen))
    process.stdout.close()
    process.stdin.close()
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is not None
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.model
def test_real_model_says_the_same_with_and_without_drafts(smollm2):
    ask = (
        "run",
        smollm2,
        *ONE,
        "-p",
        "Write a haiku about rain.",
        "--max-tokens",
        "32",
        "--temperature",
        "0.8",
        "--seed",
        "7",
    )
    drafted, plain = (
        json.loads(leadout(*ask, "--json", "--draft", draft).stdout) for draft in ("ngram", "none")
    )
    assert drafted["text"] == plain["text"]
    assert drafted["text"].strip()
