"""What a check predicted, beside what was measured."""

from dataclasses import replace

import pytest

from leadout.bench.predictions import PAIRS, compare, figures_of, kept
from leadout.bench.record import write_record


def side_by_side(predicted, measured):
    spread = {"speedup": predicted, "low": predicted - 0.1, "high": predicted + 0.1}
    checked = {
        "sentence": "so and so",
        "prediction": {"speedup": spread, "kinds": [{"kind": "chat", "speedup": spread}]},
    }
    figures = {name: {"auto": {"speedup": {"median": value}}} for name, value in measured.items()}
    return compare("a with b", checked, {"figures": {"workloads": figures}})


def test_the_error_is_a_share_of_the_mean_speed_that_was_measured():
    found = side_by_side(1.1, {"chat": 0.5, "code": 2.0})
    assert found.measured == pytest.approx(1.0)
    assert found.error == pytest.approx(0.1)
    assert found.kinds == {"chat": (1.1, 0.5)}


@pytest.mark.parametrize(
    ("predicted", "measured", "is_wrong"),
    [(1.2, 0.9, True), (0.97, 1.1, True), (1.2, 1.3, False), (0.9, 0.8, False), (1.2, 0.97, False)],
)
def test_it_is_wrong_where_it_clearly_told_the_other_side(predicted, measured, is_wrong):
    found = side_by_side(predicted, {"chat": measured})
    assert found.is_wrong is is_wrong
    assert found.to_json()["is_wrong"] is is_wrong


def test_a_record_is_added_to(tmp_path):
    out = tmp_path / "predictions.json"
    assert kept(out, ()) == []
    first, second = (
        side_by_side(1.1, {"chat": 1.0}),
        replace(side_by_side(1.2, {"chat": 1.0}), pair="c with d"),
    )
    write_record(out, "predictions", {}, figures_of([first, second]))
    assert [each.pair for each in kept(out, {"a with b"})] == ["c with d"]
    assert kept(out, ())[0].error == first.error
    assert figures_of(kept(out, ()))["median_error"] == pytest.approx(0.15)


def test_the_pairs_are_different():
    assert len({str(pair) for pair in PAIRS}) == len(PAIRS) >= 6
