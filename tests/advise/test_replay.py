"""Answers recorded once and decoded again with costs instead of passes."""

import math
import re
from dataclasses import replace
from itertools import count, cycle

import pytest
from talkers import VOCAB, half_right, wanderer

from leadout.advise.check import CheckReport, measure, verdict_of
from leadout.advise.predict import Prediction, predict
from leadout.advise.record import Answered, DraftRecord, Guess, TargetRecord, record_draft, record_target
from leadout.advise.replay import replay, with_draft
from leadout.advise.samples import KINDS, Sample, read_samples
from leadout.core.cost import CostTable
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.events import Round
from leadout.engine.memory import Memory
from leadout.engine.pace import PacedSchedule
from leadout.engine.params import Params
from leadout.engine.profile import Profile
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError
from leadout.models.remember import Findings

N = 40
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
FLAT = CostTable(widths=tuple((width, 1.0 + 0.01 * width) for width in WIDTHS), fixed_s=0.001)
STEEP = CostTable(widths=tuple((width, float(width)) for width in WIDTHS), fixed_s=0.001)


def quiet(what, done, total):
    pass


def clock():
    ticks = count()
    return lambda: next(ticks) * 0.001


def recorded(n=N):
    target = wanderer()
    samples = read_samples(target.vocab)
    return record_target(target, samples, n, clock=clock(), show=quiet)


@pytest.fixture(scope="module")
def record():
    return recorded()


@pytest.fixture(scope="module")
def draft(record):
    return record_draft(ModelDrafter(half_right()), record, clock=clock(), show=quiet)


def test_samples_are_two_of_each_kind_and_none_of_a_benchmarks():
    from leadout.bench.workloads import read_workload

    samples = read_samples(VOCAB)
    assert [each.kind for each in samples] == [*KINDS, *KINDS]
    assert len({each.name for each in samples}) == len(samples)
    for kind in KINDS:
        asked = [turn for each in read_workload(kind).conversations for turn in each.turns]
        for sample in samples:
            assert not any(turn in sample.conversation.messages[0]["content"] for turn in asked)


def test_the_record_has_the_targets_greedy_answers(record):
    target = wanderer()
    assert len(record.answers) == 12
    for each in record.answers[:3]:
        plain = Engine(target).generate(each.sample.prompt, Params(temperature=0.0, max_tokens=N))
        assert each.answer == plain.ids
    assert {width for width, _ in record.costs.widths} >= {1, 2, 4, 8, 16}


def test_the_record_leaves_the_targets_slot_empty():
    target = wanderer()
    record_target(target, read_samples(target.vocab)[:1], 8, clock=clock(), show=quiet)
    assert target.length(0) == 0


def test_guesses_are_the_drafts_own_where_all_before_stood(record, draft):
    model = half_right()
    each, guesses = record.answers[0], draft.guesses[0]
    text = (*each.sample.prompt, *each.answer)
    for at in range(1, len(each.answer)):
        row = model._rule(text[: len(each.sample.prompt) + at])
        assert guesses[at].stood == (int(row.argmax()) == each.answer[at])
    assert 0.3 < draft.agreement < 0.9


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("has_model", [True, False])
def test_a_replay_makes_the_rounds_that_the_engine_makes(record, draft, k, has_model):
    for at in (0, 2, 5):
        each = record.answers[at]
        model = ModelDrafter(half_right()) if has_model else None
        drafter = HybridDrafter([SuffixDrafter(), NgramDrafter()], model)
        engine = Engine(wanderer(), drafter, schedule=FixedSchedule(k))
        params = Params(temperature=0.0, max_tokens=len(each.answer))
        rounds = [e for e in engine.stream(each.sample.prompt, params) if isinstance(e, Round)]
        guesses = draft.guesses[at] if has_model else None
        seen = replay(FixedSchedule(k), each, with_draft(FLAT, 0.1, 0.0), guesses)
        assert seen.passes == len(rounds) - 1
        assert seen.accepted == sum(r.accepted for r in rounds)
        assert seen.drafted == sum(r.drafted for r in rounds)


def made_up(stood, n=N):
    """An answer that repeats nothing, and a draft that is right or wrong all along."""
    sample = Sample(kind="chat", name="x", prompt=tuple(range(1000, 1020)))
    answered = Answered(sample=sample, answer=tuple(range(n)))
    sure = 0.98 if stood else 0.02
    return answered, tuple(Guess(confidence=sure, stood=stood) for _ in range(n))


def test_a_fixed_length_costs_what_can_be_reckoned_by_hand():
    answered, guesses = made_up(True, n=13)
    costs = CostTable(widths=tuple((w, 1.0) for w in WIDTHS), draft_s=0.1, read_s=0.0)
    seen = replay(FixedSchedule(3), answered, costs, guesses)
    # a plain pass gives the first token; three rounds of 3 + 1 tokens the other twelve
    assert (seen.tokens, seen.passes, seen.drafted, seen.accepted) == (13, 3, 9, 9)
    assert seen.seconds == pytest.approx(3 * (1.0 + 3 * 0.1))
    assert seen.plain_s == pytest.approx(12.0)


def test_reading_the_prompt_is_spread_over_a_usual_answer():
    answered, guesses = made_up(True, n=13)
    costs = CostTable(widths=tuple((w, 1.0) for w in WIDTHS), draft_s=0.1, read_s=0.01)
    seen = replay(FixedSchedule(3), answered, costs, guesses)
    backlog = (20 + 1 - 2) * 0.01  # the prompt and one token are unread, of which two are read in any round
    rounds = 3 * (1.0 + 3 * 0.1) + 3 * 0.01  # after a round that stood whole its last token and the bonus are
    assert seen.seconds == pytest.approx(rounds + backlog * 12 / 199)


def test_only_allowed_widths_are_used():
    answered, guesses = made_up(True, n=13)
    costs = CostTable(widths=tuple((w, 1.0) for w in WIDTHS), draft_s=0.1)
    seen = replay(FixedSchedule(3), answered, costs, guesses, widths=frozenset({1}))
    assert (seen.passes, seen.drafted) == (12, 0)
    seen = replay(FixedSchedule(3), answered, costs, guesses, widths=frozenset({1, 2}))
    assert (seen.passes, seen.drafted) == (6, 6)


@pytest.mark.parametrize(
    ("stood", "costs", "low", "high"),
    [
        (True, FLAT, 2.5, 6.0),
        (True, STEEP, 0.97, 1.01),
        (False, FLAT, 0.97, 1.01),
        (False, STEEP, 0.97, 1.01),
    ],
)
def test_the_schedule_that_would_run_decides(stood, costs, low, high):
    answered, guesses = made_up(stood, n=120)
    costs = with_draft(costs, 0.1, 0.01)
    schedule = PacedSchedule(Memory(profile=Profile(costs)))
    replay(schedule, answered, costs, guesses)
    assert low <= replay(schedule, answered, costs, guesses).speedup <= high


def fixed_record(n_kinds=6, stood=True, n=100):
    samples = [made_up(stood, n) for _ in range(2 * n_kinds)]
    answers = tuple(
        Answered(
            sample=Sample(kind=KINDS[i % n_kinds], name=f"s{i}", prompt=each.sample.prompt),
            answer=each.answer,
        )
        for i, (each, _) in enumerate(samples)
    )
    guesses = tuple(guess for _, guess in samples)
    return answers, DraftRecord(guesses=guesses, draft_s=0.1, read_s=0.01)


def test_a_prediction_has_every_kind_and_an_interval():
    answers, draft = fixed_record()
    found = predict(TargetRecord(answers=answers, costs=FLAT), draft)
    assert tuple(each.kind for each in found.kinds) == KINDS
    for each in (*found.kinds, found):
        assert each.speedup.low < each.speedup.speedup < each.speedup.high
        assert each.agreement == 1.0
    assert found.speedup.speedup > 2
    assert math.isclose(found.lookups.speedup, 1.0, abs_tol=0.03)
    assert verdict_of(found).advice == "use"
    assert Prediction.from_json(found.to_json()) == found
    assert Prediction.from_json({"kinds": 3}) is None


def test_the_interval_grows_with_the_spread_of_samples():
    answers, right = fixed_record()
    halting = tuple(Guess(confidence=0.98 if i % 3 else 0.3, stood=i % 3 != 0) for i in range(100))
    guesses = (*right.guesses[:6], halting, *right.guesses[7:])
    mixed = DraftRecord(guesses=guesses, draft_s=0.1, read_s=0.01)
    record = TargetRecord(answers=answers, costs=FLAT)
    narrow, wide = predict(record, right).kinds[0].speedup, predict(record, mixed).kinds[0].speedup
    assert wide.high / wide.low > 1.5 * narrow.high / narrow.low


def test_a_useless_draft_is_not_recommended():
    answers, draft = fixed_record(stood=False)
    found = predict(TargetRecord(answers=answers, costs=FLAT), draft)
    verdict = verdict_of(found)
    assert verdict.advice == "plain"
    assert "only 0% of the draft's tokens are what the target says" in verdict.sentence


def test_without_answers_nothing_is_predicted():
    with pytest.raises(InputError, match="answered none of the samples with more than one token"):
        predict(TargetRecord(answers=(), costs=FLAT), None)


def test_a_targets_record_is_made_once_and_serves_every_draft(tmp_path):
    findings = Findings("records", tmp_path)
    target = wanderer()
    first = measure(
        target, ModelDrafter(half_right()), key="k", findings=findings, seconds=1e-4, clock=clock()
    )
    n_passes = len(target.passes)
    again = measure(
        target, ModelDrafter(half_right()), key="k", findings=findings, seconds=1e-4, clock=clock()
    )
    assert len(target.passes) == n_passes
    assert [each.kind for each in again.kinds] == [each.kind for each in first.kinds]
    alone = measure(target, None, key="k", findings=findings, clock=clock())
    assert (alone.agreement, alone.draft_s) == (None, 0.0)
    assert len(target.passes) == n_passes


def test_what_a_busy_machine_shows_is_told_and_not_kept(tmp_path):
    findings = Findings("records", tmp_path)
    target = wanderer(cycle((0.004, 0.01, 0.01)))
    found = measure(target, None, key="k", findings=findings, seconds=1e-4)
    assert found.is_disturbed
    assert findings.read("k") is None
    warning = CheckReport(preview=None, prediction=found, verdict=verdict_of(found)).warning
    assert re.match(r"something else kept this machine busy: passes took [2-9]\.\d times as long", warning)
    idle = measure(wanderer(), None, key="k", findings=findings, seconds=1e-4)
    assert not CheckReport(preview=None, prediction=idle, verdict=verdict_of(idle)).warning
    assert findings.read("k") is not None


def test_a_record_survives_being_written_down(record):
    samples = [each.sample for each in record.answers]
    given = TargetRecord(answers=record.answers, costs=replace(FLAT, attention_s=1e-6))
    n_vocab = 1 + max(max(each.answer) for each in record.answers)
    assert TargetRecord.from_json(given.to_json(), samples, n_vocab) == given
    assert TargetRecord.from_json({"answers": {}}, samples, n_vocab) is None
    assert TargetRecord.from_json(None, samples, n_vocab) is None
    assert TargetRecord.from_json(given.to_json(), samples, n_vocab - 1) is None  # of another vocabulary
    for odd in (-1, 1e308, float("inf"), "1", True, None):
        damaged = given.to_json()
        damaged["answers"][samples[0].name][0] = odd
        assert TargetRecord.from_json(damaged, samples, n_vocab) is None


def test_time_ends_the_recording_once_every_kind_was_asked():
    target = wanderer()
    samples = read_samples(target.vocab)
    record = record_target(target, samples, 8, clock=clock(), show=quiet, seconds=0.0)
    assert [each.sample.kind for each in record.answers] == list(KINDS)
