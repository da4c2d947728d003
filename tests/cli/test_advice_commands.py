"""`leadout plan`, `leadout check` and `leadout pick` as a user meets them."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import CHATML, COMMAND, assert_one_line, environment, leadout

import leadout as package
from leadout.testing.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a target, a draft that fits, one of another family, and a broken one."""
    folder = tmp_path_factory.mktemp("advice") / "модели é"
    folder.mkdir()
    write_tiny_gguf(folder / "target.gguf", n_layers=6, chat_template=CHATML, n_ctx_train=2048)
    write_tiny_gguf(folder / "draft.gguf", n_layers=1, perturb=0.05, n_ctx_train=1024)
    (folder / "broken.gguf").write_bytes(b"GGUF")
    return folder


@pytest.fixture
def own(tmp_path):
    """Caches of its own, so that nothing is remembered and nothing else is found."""
    folders = {
        name: str(tmp_path / name) for name in ("LEADOUT_CACHE", "HF_HUB_CACHE", "OLLAMA_MODELS", "HOME")
    }
    return {**folders, "XDG_CACHE_HOME": str(tmp_path / "xdg"), "LLAMA_CACHE": str(tmp_path / "llama")}


def test_plan_tells_memory_and_speed(models, own):
    arguments = ("plan", models / "target.gguf", "--draft", models / "draft.gguf", "--ctx", "2048")
    done = leadout(*arguments, **own)
    assert done.returncode == 0, done.stderr
    assert "keys and values" in done.stdout
    assert "fits into memory: " in done.stdout
    assert "estimated from file sizes and the memory's speed" in done.stdout
    assert "beyond 1,024 positions the draft stops" in done.stderr
    told = json.loads(leadout(*arguments, "--slots", "4", "--json", **own).stdout)
    assert told["memory"]["target"]["kv_bytes"] == 4 * 2048 * 6 * 64 * 2
    assert told["memory"]["draft"]["kv_bytes"] == 4 * 1024 * 64 * 2
    assert told["memory"]["fit"] == "fits"
    assert told["speed"]["basis"] == "sizes"


def test_a_plan_that_does_not_fit_says_no(models, own):
    huge = ("--ctx", "2000000000", "--json")
    done = leadout("plan", models / "target.gguf", *huge, **own)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["memory"]["fit"] == "too large"
    given = leadout("plan", models / "target.gguf", "--draft-ctx", "512", **own)
    assert_one_line(given, 2, "--draft-ctx can only be given with a draft model; name one with --draft MODEL")


def test_check_measures_once_and_answers_in_a_sentence(models, own):
    pair = (models / "target.gguf", models / "draft.gguf", "--threads", "1")
    done = leadout("check", *pair, **own)
    assert done.returncode in (0, 3), done.stderr
    assert "long document" in done.stdout
    assert "vocabulary: compatible" in done.stdout
    assert "size: " in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Recommended" if done.returncode == 0 else "Not recommended")
    assert "the target answers" in done.stderr
    again = leadout("check", *pair, "--json", **own)
    assert again.returncode == done.returncode
    assert again.stderr == ""  # nothing was measured
    told = json.loads(again.stdout)
    assert told["sentence"] == last
    assert [each["kind"] for each in told["prediction"]["kinds"]] == [
        *("chat", "code", "edit", "extraction", "maths", "long_document")
    ]
    picked = json.loads(leadout("pick", pair[0], *pair[2:], "--from", models, "--json", **own).stdout)
    assert picked["candidates"][0]["estimate"]["basis"] == "measured"


def test_check_says_what_cannot_be_used_before_anything_is_loaded(models, own, tmp_path):
    other = write_tiny_gguf(tmp_path / "projector.gguf")
    write_tiny_gguf(other, n_layers=1)
    done = leadout("check", models / "target.gguf", models / "target.gguf", **own)
    assert done.returncode == 3
    assert "Cannot be used: target and draft are the same file" in done.stdout
    broken = leadout("check", models / "target.gguf", models / "broken.gguf", **own)
    assert_one_line(broken, 2, "broken.gguf is damaged or cut short")


def test_a_draft_of_another_vocabulary_is_checked_over_its_bridge_and_picked(models, own, tmp_path):
    other = write_tiny_gguf(tmp_path / "other.gguf", architecture="qwen2", n_layers=1)
    done = leadout("check", models / "target.gguf", other, "--threads", "1", "--json", **own)
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(done.stdout)
    assert told["vocabulary"]["is_same"] is False
    assert told["prediction"]["draft"] in ("other by text", "other by shared tokens")
    assert told["prediction"]["agreement"] is not None
    assert told["advice"] != "cannot"
    arguments = ("--from", tmp_path, "--threads", "1", "--json")
    picked = json.loads(leadout("pick", models / "target.gguf", *arguments, **own).stdout)
    assert [each["name"] for each in picked["candidates"]] == [str(other)]
    assert "of another vocabulary" in picked["candidates"][0]["vocabulary"]
    assert picked["candidates"][0]["estimate"]["basis"] == "measured"


def test_pick_ranks_and_prints_the_command(models, own):
    done = leadout("pick", models / "target.gguf", "--from", models, **own)
    assert done.returncode in (0, 3), done.stderr
    assert f"ruled out: {models / 'broken.gguf'}: " in done.stdout
    assert f"ruled out: {models / 'target.gguf'}: the target itself" in done.stdout
    introduction, _, command = done.stdout.splitlines()[-1].partition(": ")
    assert introduction in ("Use it with", "No draft model is needed", "Decode plainly")
    assert "no draft model (lookups)" in done.stdout
    assert command.startswith("leadout chat ")
    assert " --draft " in command


def test_pick_measures_the_best_on_request(models, own):
    arguments = (
        "pick",
        models / "target.gguf",
        "--from",
        models,
        "--threads",
        "1",
        "--measure",
        "1",
        "--json",
    )
    done = leadout(*arguments, **own)
    told = json.loads(done.stdout)
    assert told["candidates"][0]["estimate"]["basis"] == "measured"
    assert done.returncode == (0 if told["winner"] else 3)


def test_pick_refuses_a_folder_that_is_not_there(models, own):
    done = leadout("pick", models / "target.gguf", "--from", "nowhere", **own)
    assert_one_line(done, 2, "nowhere does not exist; check the path")


def test_auto_says_in_one_line_what_drafts(models, own, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(models / "target.gguf", alone)
    asked = ("-p", "one two three one two", "--max-tokens", "8", "--draft", "auto", "--threads", "1")
    done = leadout("run", alone / "target.gguf", *asked, **own)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("draft auto: no draft model, as there is no other model here") == 1
    told = json.loads(leadout("run", alone / "target.gguf", *asked, "--json", **own).stdout)
    assert told["notes"] == ["draft auto: no draft model, as there is no other model here"]


def test_files_that_cannot_be_run_are_ruled_out_when_they_are_measured(models, own, tmp_path):
    """Their headers are sound, so that nothing but running them shows it."""
    data = (models / "draft.gguf").read_bytes()
    (tmp_path / "lacking.gguf").write_bytes(data.replace(b"blk.0.ffn_down", b"blk.0.ffn_dowx"))
    arguments = ("--from", tmp_path, "--threads", "1", "--measure", "2", "--json")
    done = leadout("pick", models / "target.gguf", *arguments, **own)
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    assert (told["winner"], told["candidates"]) == (None, [])
    assert [each["name"] for each in told["ruled_out"]] == [str(tmp_path / "lacking.gguf")]
    assert "blk.0.ffn_down.weight' not found" in told["ruled_out"][0]["reason"]


def test_a_draft_whose_context_is_over_at_once_is_ruled_out(models, own, tmp_path):
    write_tiny_gguf(tmp_path / "short.gguf", n_layers=1, n_ctx_train=64)
    arguments = ("--from", tmp_path, "--threads", "1", "--json")
    told = json.loads(leadout("pick", models / "target.gguf", *arguments, **own).stdout)
    assert [each["reason"] for each in told["ruled_out"]] == [
        "made for 64 positions, which most prompts fill by themselves"
    ]


def test_names_of_files_neither_break_lines_nor_steer_the_terminal(models, own, tmp_path):
    names = [
        "new\nline.gguf",
        "red\x1b[31m.gguf",
        "turned\u202efugg.gguf",
        "bytes\udcff.gguf",
        "--option.gguf",
    ]
    for name in names:
        shutil.copy(models / "draft.gguf", tmp_path / name)
    (tmp_path / "empty\x1b[2J\n.gguf").touch()
    arguments = ("--from", tmp_path, "--threads", "1")
    done = leadout("pick", models / "target.gguf", *arguments, **own)
    assert done.returncode in (0, 3), done.stderr
    shown = done.stdout
    assert not {"\x1b", "\u202e", "\r"} & set(shown)
    assert f"ruled out: {tmp_path}/empty\\x1b[2J\\n.gguf: " in shown
    for name in ("new\\nline.gguf", "red\\x1b[31m.gguf", "turned\\u202efugg.gguf", "bytes?.gguf"):
        rows = [line for line in shown.splitlines() if f"{line} ".startswith(f"{tmp_path}/{name} ")]
        assert len(rows) == 1, name
    given = json.loads(leadout("pick", models / "target.gguf", *arguments, "--json", **own).stdout)
    assert {each["name"] for each in given["candidates"]} == {str(tmp_path / name) for name in names}


def test_the_command_for_a_target_with_a_leading_dash_can_be_run(models, own, tmp_path):
    shutil.copy(models / "target.gguf", tmp_path / "-target.gguf")
    given = ("pick", "--from", models, "--threads", "1", "--json", "--", "-target.gguf")
    done = subprocess.run(
        [*COMMAND, *map(str, given)],
        cwd=tmp_path, capture_output=True, timeout=120, check=False,
        env=environment(PYTHONPATH=str(Path(package.__file__).parents[1]), **own),
    )  # fmt: skip
    command = shlex.split(json.loads(done.stdout)["command"])
    assert command == ["leadout", "chat", "--draft", command[3], "--", "-target.gguf"]
