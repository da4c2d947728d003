"""`models`, `pull`, `prove`, `demo`, help and version."""

import inspect
import json
import re
import shutil
import sys

import pytest
from commands import leadout

from leadout import __version__
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.models.options import GgufOptions


def test_models_lists_the_catalogue_and_what_is_here(tmp_path):
    cache = {"LEADOUT_CACHE": str(tmp_path), "HF_HOME": str(tmp_path), "OLLAMA_MODELS": str(tmp_path)}
    table, listed = leadout("models", **cache), json.loads(leadout("models", "--json", **cache).stdout)
    names = [row["name"] for row in listed["models"]]
    assert "smollm2-135m" in names
    assert all(name in table.stdout for name in names)
    assert {row["state"] for row in listed["models"]} == {"absent"}


def test_pull_says_where_the_file_lies(tiny):
    done = leadout("pull", tiny, "--offline")
    assert (done.returncode, done.stdout) == (0, f"{tiny}\n")
    assert json.loads(leadout("pull", tiny, "--json").stdout)["files"] == [str(tiny)]


def test_proof_passes_in_a_table_and_in_json(tiny, tiny_draft):
    little = ("--threads", "1", "--prompts", "2", "--tokens", "16", "--draws", "200", "--draft", tiny_draft)
    table, as_json = leadout("prove", tiny, *little), leadout("prove", tiny, *little, "--json")
    assert table.returncode == as_json.returncode == 0, table.stdout
    assert table.stdout.endswith("lossless: yes\n")
    report = json.loads(as_json.stdout)
    assert as_json.stderr == ""
    assert report["lossless"] is True
    assert {"greedy", "seeded", "law", "widths"} <= set(report)
    for part in ("greedy", "seeded", "law 1", "width 2"):
        assert part in table.stdout


def test_proof_without_evidence_fails(tiny):
    done = leadout(
        "prove", tiny, "--threads", "1", "--prompts", "1", "--tokens", "8", "--draws", "100", "-k", "1"
    )
    assert done.returncode == 1
    assert "nothing was drafted" in done.stdout
    assert done.stdout.endswith("lossless: no\n")
    assert leadout("prove", tiny, "--draft", "none").returncode == 2
    alone = leadout("prove", tiny, "--draft", "suffix")
    assert alone.returncode == 2
    assert "--draft suffix cannot be proved by itself; use ngram or a draft model" in alone.stderr


@pytest.mark.model
def test_demo_shows_both_speeds_and_the_same_text(smollm2, tmp_path):
    place = tmp_path / "models" / "smollm2-135m" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    place.parent.mkdir(parents=True)
    shutil.copyfile(smollm2, place)
    cache = {"LEADOUT_CACHE": str(tmp_path)}
    short = ("--threads", "1", "--offline", "--repeats", "1", "--max-tokens", "32")
    done = leadout("demo", *short, **cache)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^plain +\d", done.stdout, re.MULTILINE)
    assert re.search(r"^with ngram +\d+\.\d +[2-9]\.\d\d +\d+%", done.stdout, re.MULTILINE), done.stdout
    assert "identical: yes\n" in done.stdout
    assert done.stdout.endswith(f"next: {sys.executable} -m leadout chat smollm2-135m --draft auto\n")
    measured = json.loads(leadout("demo", *short[:-1], "8", "--json", **cache).stdout)
    assert measured["identical"] is True
    assert measured["drafted"][0]["ids"] == measured["plain"][0]["ids"]


def test_help_states_the_defaults_of_the_library():
    text = " ".join(leadout("run", "--help", COLUMNS="200").stdout.split())
    params, options = Params(), GgufOptions()
    for option, default in {
        "--temperature": params.temperature,
        "--top-p": params.top_p,
        "--repetition-penalty": params.repetition_penalty,
        "--verification": params.verification,
        "--batch": options.n_batch,
        "--gpu-layers": options.n_gpu_layers,
        "--kv-type-k": options.kv_type_k,
        "-k": f"({inspect.signature(FixedSchedule).parameters['k'].default})",
    }.items():
        _, _, after = text.partition(f" {option} ")
        told = re.search(r"\[default: ([^\]]*)\]", after)
        assert told is not None, option
        assert told[1] == str(default), option


def test_version_and_every_help():
    assert leadout("--version").stdout == f"leadout {__version__}\n"
    overview = leadout("--help").stdout
    for command in ("run", "chat", "prove", "demo", "models", "pull"):
        assert f" {command} " in overview
        assert leadout(command, "--help").returncode == 0
