"""The picture is drawn from the JSON file alone."""

import json

import pytest
from talk import answer, taken

from leadout.bench.picture import HAS_MATPLOTLIB, NEEDS_MATPLOTLIB, draw
from leadout.bench.record import Spread, write_record
from leadout.bench.report import summarise
from leadout.bench.runner import Run
from leadout.errors import InputError

needs_matplotlib = pytest.mark.skipif(not HAS_MATPLOTLIB, reason="matplotlib is not installed")


def record(tmp_path, **more):
    run = Run(answers=tuple(
        taken(name, answer(range(11), seconds), workload=workload, unit=unit)
        for workload in ("chat", "long_document") for unit in "ab"
        for name, seconds in (("plain", 4.0), ("fixed:3", 2.0))
    ))  # fmt: skip
    file = tmp_path / "bench.json"
    write_record(file, "bench", {}, {
        "models": {"run": {"target": {"name": "tiny", "provider": "ik"}}},
        "workloads": summarise(run, ["plain"]),
        "verify_ms_by_width": {"fixed:3": {1: Spread.of([60.0]), 4: Spread.of([100.0, 120.0])}},
        **more,
    })  # fmt: skip
    return json.loads(file.read_text())


@needs_matplotlib
def test_picture_names_contenders_and_workloads(tmp_path):
    draw(record(tmp_path), tmp_path / "deep" / "bench.svg")
    drawn = (tmp_path / "deep" / "bench.svg").read_text()
    assert drawn.count("<!-- fixed:3 -->") == 2
    assert "<!-- long document -->" in drawn
    assert "predicted acceptance" not in drawn


@needs_matplotlib
def test_picture_shows_acceptance_against_prediction_where_the_record_has_it(tmp_path):
    table = [{"from": 0.5, "n": 4, "predicted": 0.55, "stood": 0.5}]
    calibration = {"auto": {"n": 4, "brier": 0.125, "brier_of_mean": 0.2, "reliability": table}}
    draw(record(tmp_path, calibration=calibration), tmp_path / "bench.svg")
    drawn = (tmp_path / "bench.svg").read_text()
    assert "<!-- predicted acceptance -->" in drawn
    assert "<!-- auto, Brier 0.125 -->" in drawn


@needs_matplotlib
def test_picture_shows_the_oracle_timed_costs_and_what_was_held_out(tmp_path):
    table = [{"from": 0.5, "n": 4, "predicted": 0.55, "stood": 0.5}]
    more = {
        "hindsight": {"chat": {"oracle": 2.5}},
        "costs": {"run": {"verify_ms_by_width": {1: Spread.of([60.0]), 2: Spread.of([70.0])}}},
        "held_out": {"learning": {"brier": 0.0625, "reliability": table}},
    }
    draw(record(tmp_path, **more), tmp_path / "bench.svg")
    drawn = (tmp_path / "bench.svg").read_text()
    assert "<!-- oracle, in hindsight -->" in drawn
    assert "<!-- run -->" in drawn
    assert "<!-- held out, Brier 0.062 -->" in drawn


@needs_matplotlib
def test_other_records_are_refused(tmp_path):
    with pytest.raises(InputError, match="this is no record of `leadout bench`"):
        draw({**record(tmp_path), "benchmark": "plain"}, tmp_path / "bench.svg")


@pytest.mark.skipif(HAS_MATPLOTLIB, reason="matplotlib is installed")
def test_without_matplotlib_the_next_step_is_said(tmp_path):
    with pytest.raises(InputError, match="no picture: matplotlib is not installed") as error:
        draw(record(tmp_path), tmp_path / "bench.svg")
    assert str(error.value) == NEEDS_MATPLOTLIB
