"""The whole benchmark on models from a table, the command on tiny files, and once on a real model."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from talk import CHATML, talker

from leadout.bench.bench import bench
from leadout.bench.options import BenchOptions
from leadout.bench.record import write_record
from leadout.bench.workloads import read_workload
from leadout.errors import InputError
from leadout.loading import LoadedModels
from leadout.models.compare import compare
from leadout.models.options import GgufOptions
from leadout.testing.tiny_gguf import write_tiny_gguf
from real_models import SMALL, real_model


def measure(tmp_path, *, n_ctx=16_384, draft="draft", loaded=None, keep=None, **change):
    def load(provider):
        target = talker(n_ctx=n_ctx)
        models = LoadedModels(target=target)
        if draft == "draft":
            second = talker(2, n_ctx=n_ctx)
            models = LoadedModels(target=target, draft=second, comparison=compare(target.vocab, second.vocab))
        if loaded is not None:
            loaded[provider] = models
        return models

    given = {"max_tokens": 5, "n_prompts": 2, "n_calls": 3, "vs": "ngram:2,fixed:2"}
    options = BenchOptions(**{**given, **change}, out=tmp_path / "bench.json")
    return bench(load, options, GgufOptions(), draft=draft, keep=keep)


def test_every_workload_is_answered_by_every_contender_with_the_same_text(tmp_path):
    done = measure(tmp_path)
    assert list(done.figures) == ["chat", "code", "edit", "extraction", "maths", "long_document", "agent"]
    for workload, by_name in done.figures.items():
        assert list(by_name) == ["plain", "ngram:2", "fixed:2"]
        for each in by_name.values():
            assert each.n_answers == each.n_same == (3 if workload == "agent" else 2)
            assert each.speedup.n == (1 if workload == "agent" else 2)
    assert done.notes == ()


@pytest.mark.parametrize("draft", ["draft", "ngram"])
def test_what_leadout_does_by_itself_can_take_part(tmp_path, draft):
    done = measure(tmp_path, draft=draft, workloads="chat,agent", vs="auto", repeats=2)
    for by_name in done.figures.values():
        assert by_name["auto"].n_answers == by_name["auto"].n_same
    calibration = done.to_json("plain")["calibration"]
    assert list(calibration) == ["auto"]
    assert calibration["auto"]["n"] >= 0


def test_hindsight_predictions_and_memory_are_worked_out_from_the_run(tmp_path):
    done = measure(tmp_path, workloads="chat,agent", vs="auto", max_tokens=12)
    figures = json.loads(json.dumps(done.to_json("plain"), default=asdict))
    for workload in ("chat", "agent"):
        seen = figures["hindsight"][workload]
        assert seen["oracle"] >= seen["best"] >= seen["fixed"]["plain"] == 1.0
        assert seen["share"] == seen["by_costs"] / seen["best"]
        assert {"draft k=1", "suffix k=8", "ngram k=15"} <= set(seen["fixed"])
    assert figures["complete"]
    assert set(figures["costs"]["run"]["verify_ms_by_width"]) >= {"1", "2", "8", "16"}
    assert figures["costs"]["run"]["draft_ms"]["n"] == 6  # three before the run and three after it
    assert len(figures["facts"]["chat"]) == 2
    assert len(figures["facts"]["agent"]) == 3
    assert figures["held_out"]["learning"]["n"] > 0
    assert 40 < figures["remembering"]["bytes_per_token"] < 80


def test_draws_have_no_hindsight(tmp_path):
    done = measure(tmp_path, workloads="chat", vs="auto", temperature=0.8, seed=3)
    assert done.to_json("plain")["hindsight"] == {}
    assert done.held_out is None


def test_what_there_is_is_kept_unit_by_unit(tmp_path):
    kept = []
    measure(tmp_path, workloads="chat", vs="plain", keep=kept.append)
    assert [each.figures["chat"]["plain"].n_answers for each in kept] == [1, 2]
    assert [each.run.is_complete for each in kept] == [False, True]


def test_record_has_provenance_spread_and_every_answer(tmp_path):
    done = measure(tmp_path, workloads="chat,agent", repeats=2)
    out = tmp_path / "deep" / "bench.json"
    write_record(out, "bench", {"seed": None}, done.to_json("plain"))
    record = json.loads(out.read_text())
    figures = record["figures"]
    assert {"commit", "machine", "date", "arguments", "command", "leadout"} <= set(record)
    assert len(figures["answers"]) == 3 * 2 * (2 + 3)
    assert all(each["same_as_plain"] for each in figures["answers"])
    assert set(figures["workloads"]["chat"]["fixed:2"]["speedup"]) == {"median", "low", "high", "n"}
    assert "1" in figures["verify_ms_by_width"]["plain"]
    assert figures["models"]["run"]["target"]["name"] == "talker"


def test_providers_are_loaded_once_each_and_closed(tmp_path):
    loaded = {}
    measure(tmp_path, workloads="maths", vs="plain@llama,ngram:2@llama,fixed:2", loaded=loaded)
    assert list(loaded) == ["", "llama"]
    assert all(models.target.closed and models.draft.closed for models in loaded.values())


def test_models_are_closed_when_something_is_wrong(tmp_path):
    loaded = {}
    with pytest.raises(InputError, match="contender fixed:2 needs a draft"):
        measure(tmp_path, draft="none", loaded=loaded)
    assert loaded[""].target.closed


def test_prompts_that_do_not_fit_are_left_out_with_a_note(tmp_path):
    done = measure(tmp_path, n_ctx=4096, workloads="chat,long_document")
    assert list(done.figures) == ["chat"]
    assert [note.split(" was ")[0] for note in done.notes] == [
        "long_document 'hut handbook'", "long_document 'ferry report'",
    ]  # fmt: skip
    assert "the context has 4096; use a larger --ctx" in done.notes[0]
    with pytest.raises(InputError, match="no prompt fits a context of 64; use a larger --ctx"):
        measure(tmp_path, n_ctx=64, workloads="chat")


def test_a_loop_that_grows_beyond_the_context_is_left_out_with_a_note(tmp_path):
    done = measure(tmp_path, n_ctx=1500, n_calls=None, workloads="chat,agent", vs="plain")
    assert list(done.figures) == ["chat"]
    (note,) = done.notes
    assert note.startswith("agent was left out: the prompt has ")
    assert "a context of 1500" in note


def test_peers_that_cannot_take_part_are_noted(tmp_path):
    done = measure(tmp_path, workloads="chat", vs="llama-server:plain", llama_server=str(tmp_path / "none"))
    assert done.notes == ("llama-server:plain was left out: the target has no file",)
    assert list(done.figures["chat"]) == ["plain"]


def test_a_peer_under_two_names_stands_twice(tmp_path):
    with pytest.raises(InputError, match="llama-server:best stands twice, as it is what its engine does"):
        measure(tmp_path, workloads="chat", vs="llama-server,llama-server:best")


def leadout(*arguments):
    command = [sys.executable, "-W", "error", "-m", "leadout", *map(str, arguments)]
    kept = {name: value for name, value in os.environ.items() if name != "LEADOUT_DEBUG"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=kept)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    pytest.importorskip("ik_llama_cpp")
    folder = tmp_path_factory.mktemp("bench command")
    return write_tiny_gguf(folder / "tiny.gguf", chat_template=CHATML, n_ctx_train=2048)


LITTLE = (
    "--workloads",
    "chat,agent",
    "--prompts",
    "1",
    "--calls",
    "2",
    "--max-tokens",
    "6",
    "--threads",
    "1",
)


def test_a_draft_that_is_no_model_is_refused(tiny):
    for word in ("auto", "suffix"):
        code, _, said = leadout("bench", tiny, *LITTLE, "--draft", word)
        assert (code, f"draft is '{word}'; here it is a draft model" in said) == (2, True)


def test_fewer_prompts_than_were_asked_for_are_noted(tmp_path):
    done = measure(tmp_path, n_prompts=None, workloads="chat:99", vs="plain", max_tokens=2)
    n = len(read_workload("chat").conversations)
    assert done.notes[0] == f"chat has {n} prompts, fewer than the 99 asked for"


def test_command_prints_a_table_and_keeps_everything(tiny, tmp_path):
    out = tmp_path / "bench.json"
    code, shown, said = leadout("bench", tiny, *LITTLE, "--vs", "ngram:2,llama-server", "--out", out)
    assert code == 0, said
    assert "workload" in shown
    assert "ngram:2" in shown
    assert said.count("llama-server was left out: ") == 2  # at once, and at the end
    assert said.endswith(f"every answer's figures are in {out}\n")
    record = json.loads(Path(out).read_text())
    assert record["arguments"]["vs"] == "ngram:2,llama-server"
    assert record["arguments"]["options"]["n_threads"] == 1


def test_command_prints_json_and_draws(tiny, tmp_path):
    out, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    arguments = ("--out", out, "--picture", picture, "--json", "--vs", "plain")
    code, shown, said = leadout("bench", tiny, *LITTLE, *arguments)
    assert code == 0, said
    assert json.loads(shown) == json.loads(out.read_text())
    assert picture.exists() or "no picture: matplotlib is not installed" in said


def test_ctrl_c_keeps_what_there_is(tiny, tmp_path):
    out, partial = tmp_path / "bench.json", tmp_path / "bench.partial.json"
    arguments = ("bench", tiny, *LITTLE, "--vs", "plain", "--repeats", "100", "--out", out)
    command = [sys.executable, "-m", "leadout", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not partial.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"what there is of every answer's figures is in {partial}" in said
    figures = json.loads(partial.read_text())["figures"]
    assert figures["complete"] is False
    assert re.search(r"stopped after \d+ of 200 units", " ".join(figures["notes"]))
    assert figures["workloads"]["chat"]["plain"]["n_answers"] >= 1
    assert not out.exists()


def test_command_makes_other_formats_first(tiny, tmp_path):
    pytest.importorskip("llama_cpp")
    out = tmp_path / "bench.json"
    environment = {**os.environ, "LEADOUT_CACHE": str(tmp_path / "cache")}
    command = [
        sys.executable,
        "-m",
        "leadout",
        "bench",
        str(tiny),
        *LITTLE,
        "--vs",
        "plain",
        "--quant",
        "q8_0",
    ]
    done = subprocess.run(
        [*command, "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    target = json.loads(out.read_text())["figures"]["models"]["run"]["target"]
    assert target["path"].startswith("tiny-q8_0-")
    code, _, said = leadout("bench", tiny, *LITTLE, "--draft-quant", "q8_0", "--out", out)
    assert code == 2
    assert "--draft-quant can only be given with a draft model, but --draft is ngram" in said


def test_command_refuses_unknown_contenders(tiny, tmp_path):
    code, shown, said = leadout("bench", tiny, "--vs", "medusa", "--out", tmp_path / "x.json")
    assert (code, shown) == (2, "")
    assert said.startswith("leadout: contender 'medusa' is not known")
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("option", ["--out", "--picture"])
def test_command_refuses_files_that_cannot_be_written_before_it_measures(tiny, tmp_path, option):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "x.svg"
    code, shown, said = leadout("bench", tiny, "--out", tmp_path / "x.json", option, place)
    assert (code, shown) == (2, "")
    assert said.startswith(f"leadout: {place} cannot be written: ")


@pytest.mark.model
def test_real_model_gives_the_same_text_with_ngrams(tmp_path):
    from leadout.loading import load_models

    options = BenchOptions(workloads="chat,extraction", n_prompts=1, max_tokens=16, vs="ngram:3",
                           out=tmp_path / "bench.json")  # fmt: skip
    gguf = GgufOptions(exact=True, n_threads=1)
    path = real_model(SMALL)
    done = bench(lambda provider: load_models(path, options=gguf), options, gguf, draft="ngram")
    for by_name in done.figures.values():
        assert by_name["ngram:3"].n_same == by_name["ngram:3"].n_answers == 1
        assert by_name["plain"].speedup.median == pytest.approx(1.0)


def test_a_draft_over_a_bridge_can_be_measured(tmp_path):
    from leadout.loading import load_models

    target = write_tiny_gguf(tmp_path / "target.gguf", chat_template=CHATML, n_ctx_train=2048)
    other = write_tiny_gguf(tmp_path / "other.gguf", architecture="qwen2", n_layers=1, n_ctx_train=2048)
    options = BenchOptions(
        workloads="chat", n_prompts=1, max_tokens=8, vs="auto", out=tmp_path / "bench.json"
    )
    gguf = GgufOptions(n_threads=1)
    done = bench(lambda provider: load_models(target, other, options=gguf), options, gguf, draft="other")
    assert done.figures["chat"]["auto"].n_same == 1
    assert "plain" in done.looks_back["chat"].fixed
    assert any("only lookups are looked at" in note for note in done.notes)
