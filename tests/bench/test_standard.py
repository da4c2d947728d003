"""The standard set: what is run, when it is not run again, its bars, and the page made from its records."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from talk import answer, taken

from leadout.bench.bars import Bars, check
from leadout.bench.options import BenchOptions
from leadout.bench.page import PAGE, page, read_checked, read_records, write_page
from leadout.bench.record import write_record
from leadout.bench.report import summarise
from leadout.bench.runner import Run
from leadout.bench.specs import parse_specs
from leadout.bench.standard import FOLDER, bars_table, is_done, main, parse_set, read_set
from leadout.errors import InputError

ROOT = Path(__file__).parents[2]
SET = {
    "target": "big",
    "draft": "small",
    "draft_quant": "q4_0",
    "max_tokens": 100,
    "quick": {"runs": ["b"], "max_tokens": 9},
    "runs": [
        {"name": "a", "title": "A", "vs": "auto", "provider": "ik"},
        {
            "name": "b",
            "title": "B",
            "vs": "auto",
            "draft": "none",
            "draft_quant": "",
            "useless_draft": True,
            "bars": {"share": 0.9},
        },
    ],
}
FIGURES = {
    "workloads": {
        "chat": {
            "plain": {"speedup": {"median": 1.0}, "speedup_best_plain": {"median": 0.8}},
            "auto": {
                "speedup": {"median": 1.5},
                "speedup_best_plain": {"median": 1.2},
                "tokens_per_pass": 2.5,
            },
            "rival": {"speedup": {"median": 1.6}, "speedup_best_plain": {"median": 1.3}},
        },
        "maths": {"auto": {"speedup": {"median": 0.9}, "speedup_best_plain": None}},
    },
    "hindsight": {
        "chat": {"best_fixed": "draft k=2", "share": 0.97},
        "maths": {"best_fixed": "plain", "share": 0.9},
    },
    "held_out": {"learning": {"gain": 0.25}},
}


SEEN = {
    "best_fixed": "draft k=2",
    "best": 1.31,
    "reached": 2.0,
    "by_costs": 1.27,
    "share": 0.97,
    "oracle": 3.1,
}
REMEMBERING = {"n_tokens": 131072, "n_bytes": 7e6, "n_bytes_after_twice": 7e6, "bytes_per_token": 53.4}


def test_runs_take_what_they_do_not_say_from_the_set():
    first, second = parse_set(SET)
    assert first.arguments(Path("out"), more={"llama-server": "x"}) == [
        "bench", "big", "--draft", "small", "--draft-quant", "q4_0", "--max-tokens", "100", "--vs", "auto",
        "--provider", "ik", "--llama-server", "x", "--out", "out/a.json", "--picture", "out/a.svg",
    ]  # fmt: skip
    assert second.draft == "none"
    assert second.arguments(Path("out"))[-5:-4] == ["--useless-draft"]
    assert "--draft-quant" not in second.arguments(Path("out"))
    assert second.bars.share == 0.9


def test_quick_set_is_a_shortened_part():
    [only] = parse_set(SET, quick=True)
    assert (only.name, only.options["max-tokens"]) == ("b", "9")


@pytest.mark.parametrize("quick", [False, True])
def test_the_set_asks_for_what_there_is(quick):
    for run in read_set(quick=quick):
        given = {name.replace("-", "_"): value for name, value in run.options.items()}
        options = BenchOptions(vs=given["vs"], workloads=given["workloads"], quant=given.get("quant", ""))
        names = {spec.name for spec in parse_specs(options.vs)}
        assert "auto" in names
        assert set(run.bars.speedup) <= {*options.workload_names, "every"} or quick
        assert {name.partition(":")[0] for name in run.bars.beats} <= {
            name.partition(":")[0] for name in names
        }


def test_bars_are_checked_against_the_better_plain():
    bars = Bars.of(
        {
            "speedup": {"chat": 1.25, "every": 0.95},
            "beats": ["rival"],
            "share": 0.95,
            "accepted": {"auto": {"chat": 1.6, "maths": 1.0}},
            "prediction": 0.2,
        }
    )
    found = {each.what: (each.wanted, each.found, each.verdict) for each in check(bars, FIGURES)}
    assert found == {
        "chat: speed over plain": (1.25, 1.2, "missed"),
        "maths: speed over plain": (0.95, 0.9, "missed"),
        "chat: speed over rival": (1.0, 1.2 / 1.3, "missed"),
        "maths: speed over rival": (1.0, None, "not measured"),
        "chat: share of the best fixed choice (draft k=2)": (0.95, 0.97, "holds"),
        "maths: share of the best fixed choice (plain)": (0.95, 0.9, "missed"),
        "chat: accepted per round, auto": (1.6, 1.5, "missed"),
        "maths: accepted per round, auto": (1.0, None, "not measured"),
        "acceptance predicted, Brier score saved": (0.2, 0.25, "holds"),
    }


def test_bars_without_figures_are_not_measured():
    bars = Bars.of({"speedup": {"edit": 1.0}, "prediction": 0.2})
    assert [each.verdict for each in check(bars, {"workloads": {}})] == ["not measured"] * 2
    with pytest.raises(InputError, match="bars have no 'sped'; there are speedup, beats, share, accepted"):
        Bars.of({"sped": 1})


def record(file, *, complete=True):
    run = Run(answers=tuple(
        taken(name, answer(range(11), seconds), unit=unit)
        for unit in "ab" for name, seconds in (("plain", 4.0), ("auto", 2.0))
    ))  # fmt: skip
    figures = {
        "workloads": summarise(run, ["plain"]),
        "complete": complete,
        "notes": ["peer was left out: no"],
    }
    write_record(file, "bench", {}, figures)
    return json.loads(file.read_text())


def test_only_the_same_call_of_the_same_commit_is_not_measured_again(tmp_path):
    file = tmp_path / "a.json"
    assert not is_done(file, [], "c")
    written = record(file)
    written |= {"command": ["leadout", "bench", "x"], "commit": "c"}
    file.write_text(json.dumps(written))
    assert is_done(file, ["bench", "x"], "c")
    assert not is_done(file, ["bench", "y"], "c")
    assert not is_done(file, ["bench", "x"], "d")
    assert not is_done(file, ["bench", "x"], None)
    written["figures"]["complete"] = False
    file.write_text(json.dumps(written))
    assert not is_done(file, ["bench", "x"], "c")


def test_bars_of_runs_that_are_not_there_are_said_to_be_missing(tmp_path):
    record(tmp_path / "b.json")
    table = bars_table(parse_set(SET), tmp_path)
    assert [next(iter(column.cells)) for column in table.columns][:2] == ["a", "not measured"]


def test_unknown_runs_are_refused():
    with pytest.raises(InputError, match="there is no run 'q3'; there are q4_k_m-llama, q4_k_m-ik"):
        main(only="q3", quick=False, fresh=False, bars=True, llama_server="", peer_python="")


def test_command_that_is_interrupted_with_us_may_end_in_its_own_time(tmp_path):
    code = (
        "import signal, subprocess, sys\n"
        "from leadout.bench.standard import run_to_its_end\n"
        "child = 'import sys, time\\ntry: print(1, flush=True); time.sleep(60)\\n'\n"
        "child += 'except KeyboardInterrupt: time.sleep(0.5); sys.exit(7)'\n"
        "sys.exit(run_to_its_end([sys.executable, '-c', child]))\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()  # the child is at work
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 7


def test_page_has_every_figure_of_a_record(tmp_path):
    written = record(tmp_path / "a.json")
    written["figures"] |= {
        "hindsight": {"chat": SEEN},
        "held_out": {
            "by_workload": {}, "frozen": {"n": 3, "brier": 0.2, "brier_of_mean": 0.25, "gain": 0.2},
            "learning": {
                "n": 4, "brier": 0.1, "brier_of_mean": 0.2, "gain": 0.5,
                "reliability": [{"from": 0.5, "n": 4, "predicted": 0.55, "stood": 0.75}],
            },
        },
        "remembering": REMEMBERING,
        "peer_settings": {"llama-server:best": {"chosen": {"chat": "plain"}, "tokens_per_s": {}}},
    }  # fmt: skip
    text = page(parse_set(SET), {"a": written})
    assert "| chat | plain | 1.00 (1.00..1.00) | - | 1.00 (1.00..1.00) | 2.5 | - | - | 2/2 |" in text
    assert "|  | auto | 2.00 (2.00..2.00) |" in text
    assert "| chat | draft k=2 | 1.31 | 1.27 | 97% | 2.00 | 3.10 |" in text
    assert "| all, learning on | 4 | 0.100 | 0.200 | 50% |" in text
    assert "| 0.55 | 0.75 | 4 |" in text
    assert "53 bytes per remembered token" in text
    assert "llama-server:best that were fastest on prompts not measured here: chat: plain." in text
    assert "Note: peer was left out: no" in text
    assert "Not measured yet: `make bench` writes `benchmarks/b.json`." in text


def test_page_tells_what_checks_predicted():
    pair = {
        "pair": "a with b, ik",
        "predicted": 1.2,
        "low": 1.1,
        "high": 1.3,
        "measured": 1.25,
        "error": 0.04,
    }
    figures = {"median_error": 0.04, "n_wrong": 0, "pairs": [pair]}
    text = page((), {}, {"figures": figures, "commit": "c", "date": "2026-11-30T00:00"})
    assert "| a with b, ik | 1.20 (1.10..1.30) | 1.25 | 4% |" in text
    assert "Median error 4%" in text
    assert "predicts" not in page((), {})


def test_committed_page_agrees_with_the_committed_records():
    runs = read_set()
    made = page(runs, read_records(runs, ROOT / FOLDER), read_checked(ROOT / FOLDER))
    assert (ROOT / PAGE).read_text(encoding="utf-8") == made


def test_page_is_written_where_it_belongs(tmp_path):
    (tmp_path / "docs").mkdir()
    write_page(tmp_path)
    assert (tmp_path / "docs" / "benchmarks.md").read_text().startswith("# Benchmarks")
