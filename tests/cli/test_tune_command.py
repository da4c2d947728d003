"""`leadout tune` on tiny files: tables, JSON, and what the other commands make of it."""

import json

import pytest
from commands import assert_one_line, leadout

from leadout.testing.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def tuned(tiny, tiny_draft, tmp_path_factory):
    """A cache folder in which a pair was tuned, and what that printed."""
    cache = {"LEADOUT_CACHE": str(tmp_path_factory.mktemp("cache"))}
    done = leadout("tune", tiny, "--draft", tiny_draft, "--threads", "1", "--offline", **cache)
    assert done.returncode == 0, done.stderr
    return cache, done.stdout


def test_it_prints_what_it_measured_and_chose(tuned):
    _, printed = tuned
    for word in ("target", "tokens/s", "acceptance", "round, ms", "ik, 1 thread *"):
        assert word in printed
    assert printed.splitlines()[-2].startswith("chosen: ")


def test_it_says_where_the_choice_is_kept_and_how_to_undo_it(tiny, tmp_path):
    cache = {"LEADOUT_CACHE": str(tmp_path)}
    printed = leadout("tune", tiny, "--threads", "1", "--offline", **cache).stdout
    assert str(tmp_path / "tuned") in printed.splitlines()[-1]
    undo = printed.splitlines()[-1].rpartition("undone by: leadout ")[2].split()
    assert leadout(*undo, "--yes", **cache).returncode == 0
    run = leadout("run", tiny, "--max-tokens", "2", "-p", "the quick", **cache)
    assert "(tuned: " not in " ".join(run.stderr.split())


def test_the_choice_is_used_from_then_on_and_said(tuned, tiny, tiny_draft):
    cache, printed = tuned
    reason = printed.splitlines()[-2].removeprefix("chosen: ")
    run = ("run", tiny, "--draft", tiny_draft, "--max-tokens", "8", "--temperature", "0", "-p", "the quick")
    done = leadout(*run, **cache)
    assert done.returncode == 0, done.stderr
    assert f"(tuned: {reason})" in " ".join(done.stderr.split())
    assert "costs measured in" not in done.stderr  # the thorough measurement was kept
    asked = leadout(*run, "--provider", "llama", **cache)
    assert "through llama (asked for)" in " ".join(asked.stderr.split())


def test_it_gives_one_json_object(tiny, tmp_path):
    done = leadout("tune", tiny, "--threads", "1", "--json", LEADOUT_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {"choice", "targets", "caches", "drafts", "pairs", "failures", "warning"}
    assert report["choice"]["draft"] is None
    assert {each["provider"] for each in report["targets"]} <= {"ik", "llama"}
    assert all(each["tokens_per_s"] > 0 for each in report["targets"])


def test_a_draft_of_another_vocabulary_is_tuned_over_its_bridge(tiny, tmp_path):
    other = write_tiny_gguf(tmp_path / "other.gguf", architecture="qwen2", n_layers=1)
    cache = {"LEADOUT_CACHE": str(tmp_path / "cache")}
    done = leadout("tune", tiny, "--draft", other, "--threads", "1", "--json", **cache)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {each["n_compared"] for each in report["drafts"]} == {95}
    assert report["choice"]["draft"] is not None
    run = ("run", tiny, "--draft", other, "--max-tokens", "8", "--temperature", "0", "-p", "the quick")
    again = leadout(*run, **cache)
    assert again.returncode == 0, again.stderr
    assert "costs measured in" not in again.stderr


def test_a_lookup_has_nothing_to_tune(tiny, tmp_path):
    done = leadout("tune", tiny, "--draft", "ngram", LEADOUT_CACHE=str(tmp_path))
    assert_one_line(done, 2, "draft is 'ngram', which loads no model; name a draft model to tune, or none")


def test_a_missing_file_is_one_clear_line(tmp_path):
    done = leadout("tune", tmp_path / "nothing.gguf", LEADOUT_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "nothing.gguf" in done.stderr


def test_files_that_cannot_be_tuned_are_told_before_anything_is_measured(tiny, tmp_path):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF")
    assert_one_line(leadout("tune", damaged, "--offline"), 2, str(damaged))
    assert_one_line(leadout("tune", tiny, "--draft", "", "--offline"), 2, "model name '' is empty")
