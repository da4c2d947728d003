"""Results are folds over events."""

import json
from pathlib import Path

import pytest
from toys import engine, hashed

import leadout
from leadout.engine.events import Finished, Forecast, Round, Speculation, Started, Token
from leadout.engine.params import Params
from leadout.engine.result import Outlook, Provenance, ResultFold, collect
from leadout.testing import ScriptedDrafter, TableModel

SPECULATION = Speculation(enabled=True, reason="on: test", drafter="d", verification="greedy")
ORIGIN = Provenance(model="m", path=Path("/x/m.gguf"), provider="p", draft="d", seed=3, version="1")


def test_fold_adds_up_counts_and_times():
    fold = ResultFold(ORIGIN)
    for event in [
        Started(index=0, prompt_tokens=5, cached_tokens=2, seconds=1.0, speculation=SPECULATION),
        Token(index=0, token=7, origin="plain", text="a"),
        Round(
            index=0, drafter="none", drafted=0, accepted=0, emitted=1, draft_s=9.0, verify_s=9.0, other_s=9.0
        ),
        Token(index=0, token=8, origin="accepted", text="b"),
        Token(index=0, token=9, origin="bonus", text=""),
        Round(index=0, drafter="d", drafted=1, accepted=1, emitted=2, draft_s=0.1, verify_s=0.3, other_s=0.1),
        Finished(index=0, reason="length", text="c", speculation=SPECULATION),
    ]:
        fold.add(event)
    result = fold.result()
    assert (result.text, result.ids, result.finish_reason) == ("abc", (7, 8, 9), "length")
    usage = result.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (5, 2, 3)
    assert (usage.target_passes, usage.drafted, usage.accepted) == (2, 1, 1)
    assert usage.seconds == pytest.approx(1.5)  # the first round is in Started
    assert usage.tokens_per_second == pytest.approx(2 / 0.5)
    assert usage.tokens_per_pass == 1.5
    assert usage.acceptance == 1.0


def test_usage_tells_how_busy_the_machine_was():
    fold = ResultFold(ORIGIN)
    fold.add(Started(index=0, prompt_tokens=5, cached_tokens=2, seconds=1.0, speculation=SPECULATION))
    for width, verify_s in [(1, 0.01), (1, 0.03), (4, 9.0), (1, 0.02), (1, 0.05), (1, 0.01), (1, 0.04)]:
        round = Round(
            index=0, drafter="d", drafted=width - 1, accepted=0, emitted=1, draft_s=0.0, verify_s=verify_s,
            other_s=0.0, width=width,
        )  # fmt: skip
        fold.add(round)
    fold.add(Finished(index=0, reason="length", text="", speculation=SPECULATION))
    assert fold.result().usage.slowdown == pytest.approx(3.0)  # the first pass read the prompt


def test_json_has_exactly_these_keys():
    result = engine(TableModel(hashed(8), n_vocab=8), ScriptedDrafter.always(1)).generate(
        [1], Params(temperature=0.0, max_tokens=6, logprobs=1)
    )
    out = json.loads(json.dumps(result.to_json()))
    assert list(out) == [
        "text", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens", "target_passes",
        "drafted", "accepted", "forced", "tokens_per_pass", "seconds", "tokens_per_second", "slowdown",
        "speculation", "schedule", "ids", "provenance", "logprobs",
    ]  # fmt: skip
    assert list(out["speculation"]) == ["enabled", "reason", "drafter", "verification"]
    assert list(out["schedule"]) == ["name", "predicted_gain", "calibration"]
    assert list(out["schedule"]["calibration"]) == ["n", "brier", "brier_of_mean", "reliability"]
    assert out["provenance"] == {
        "model": "table", "path": None, "provider": "table", "draft": "scripted", "seed": None,
        "leadout": leadout.__version__,
    }  # fmt: skip
    assert [entry["id"] for entry in out["logprobs"]] == out["ids"]


def test_path_is_written_as_text():
    assert ORIGIN.to_json()["path"] == str(Path("/x/m.gguf"))


def test_rates_without_a_basis_are_none():
    result = engine(TableModel(hashed(8), n_vocab=8)).generate([1], Params(temperature=0.0, max_tokens=1))
    assert result.usage.tokens_per_second is None
    assert result.usage.acceptance is None


def test_events_of_a_request_come_in_order():
    events = list(
        engine(TableModel(hashed(8), n_vocab=8), ScriptedDrafter.always(1)).stream(
            [1], Params(seed=1, max_tokens=9)
        )
    )
    kinds = [type(event).__name__ for event in events]
    assert kinds[:3] == ["Started", "Token", "Round"]
    assert kinds[-2:] == ["Round", "Finished"]
    emitted = 0
    for event in events:
        if isinstance(event, Token):
            emitted += 1
        if isinstance(event, Round):
            assert event.emitted == emitted  # a round follows its tokens
            emitted = 0
    assert emitted == 0


def test_collect_sorts_answers_and_an_open_answer_is_an_error():
    with pytest.raises(ValueError, match="the answer is not complete"):
        ResultFold(ORIGIN).result()
    target = TableModel(hashed(8), n_vocab=8, n_slots=2)
    events = list(engine(target).stream([1], Params(seed=1, max_tokens=5, n=3)))
    assert [result.index for result in collect(reversed_by_answer(events), ORIGIN)] == [0, 1, 2]


def reversed_by_answer(events):
    return sorted(events, key=lambda event: -event.index)


def test_times_are_the_engines_own():
    stream = engine(TableModel(hashed(8), n_vocab=8)).stream([1], Params(temperature=0.0, max_tokens=20))
    rounds = [event for event in stream if isinstance(event, Round)]
    assert all(event.verify_s > 0 and event.other_s > 0 and event.draft_s >= 0 for event in rounds)


def test_the_plain_time_of_predicted_rounds_stands_beside_their_own():
    def a_round(emitted, plain_s):
        forecast = None if plain_s is None else Forecast(plain_s=plain_s)
        return Round(
            index=0, drafter="x", drafted=3, accepted=2, emitted=emitted, draft_s=1.0, verify_s=2.0,
            other_s=0.5, forecast=forecast,
        )  # fmt: skip

    outlook = Outlook.of([a_round(3, 2.0), a_round(1, None), a_round(2, 2.0)])
    assert (outlook.plain_s, outlook.actual_s) == (10.0, 7.0)
    assert (Outlook.of([]).plain_s, Outlook.of([]).actual_s) == (0.0, 0.0)
