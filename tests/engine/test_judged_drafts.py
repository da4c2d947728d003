"""How much is drafted never changes what is said: exact laws, seeded texts, and a judge to be caught."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadout.core import verify
from leadout.core.cost import CostTable
from leadout.core.values import History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest, Willing
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.engine.engine import Engine
from leadout.engine.memory import Memory
from leadout.engine.pace import PacedSchedule
from leadout.engine.params import Params
from leadout.engine.profile import Profile
from leadout.engine.rows import LazyRows
from leadout.engine.schedule import FixedSchedule, RoundState, StepSchedule
from leadout.engine.threshold import ThresholdSchedule
from leadout.testing import TableModel
from leadout.testing.enumeration import continued, joint_law, largest_difference, outcomes, random_table

V, K = 3, 3
CHEAP = CostTable(widths=((1, 1.0), (2, 1.3), (3, 1.45), (4, 1.6)), draft_s=0.12, read_s=0.01)
LAW = Sampling(temperature=1.0, top_p=1.0)


def logits_of(table):
    """A model rule whose law at temperature 1 is the table's, after a first token."""
    return lambda tokens: np.log(table(tokens[1:]).probs_of(np.arange(V)) + 1e-30)


def paced_judge(ks):
    paced = PacedSchedule(Memory(profile=Profile(CHEAP)))
    paced.begin(0)
    return paced.judge(0, RoundState(position=20, n_left=100, n_active=1, ks=ks))


def drafted(draft, judge, source):
    """What a real ModelDrafter proposes with this judge, every branch of chance taken."""
    drafter = ModelDrafter(TableModel(logits_of(draft), n_vocab=V))
    drafter.begin(0, DraftPrompt(ids=[0]))
    request = DraftRequest(
        slot=0, context=[0], k=K, sampling=LAW, history=History(), position=0, noise=None, source=source,
        judge=judge,
    )  # fmt: skip
    return drafter.propose([request])[0]


def error(rule, target, draft, make_judge, cut=lambda proposal: proposal):
    lengths = set()

    def program(source):
        proposal = cut(drafted(draft, make_judge(), source))
        lengths.add(len(proposal.tokens))
        rows = LazyRows(len(proposal.tokens) + 1, lambda i: target(proposal.tokens[:i]))
        verdict = rule(proposal, rows, source)
        return (*proposal.tokens[: verdict.accepted], verdict.token)

    law = continued(outcomes(program), target, K + 1)
    return largest_difference(law, joint_law(target, K + 1)), lengths


@pytest.mark.parametrize("ks", [[0, 1, 2, 3], [0, 2, 3], [0, 3]])
@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_the_law_stays_exact_when_rows_decide_how_much_is_drafted(rule, ks):
    seen = set()
    for seed in range(1, 5):
        target, draft = random_table(seed, V), random_table(seed + 10, V)
        off, lengths = error(rule, target, draft, lambda: paced_judge(ks))
        seen |= lengths
        assert off < 1e-6  # logits are float32 on their way
    assert seen <= set(ks)
    if ks != [0, 3]:
        assert len(seen) > 1  # rows did decide


class LooksBack(Willing):
    """Goes on, then takes back what it had taken: the last token, when the row after it is not sure."""

    def __init__(self):
        self.rows = []

    @property
    def wants_confidences(self):
        return True

    def takes(self, drafter, confidences):
        self.rows = list(confidences)
        return True


@pytest.mark.parametrize("rule", [verify.token, verify.block])
def test_a_judge_that_looks_back_is_caught(rule):
    judges = []

    def make_judge():
        judges.append(LooksBack())
        return judges[-1]

    def cut(proposal):
        unsure = [i for i, each in enumerate(judges[-1].rows) if i and each < 0.7]
        return proposal.first(unsure[0] - 1) if unsure else proposal

    found = [error(rule, random_table(i, V), random_table(i + 10, V), make_judge, cut) for i in range(1, 5)]
    assert all(len(lengths) > 1 for _, lengths in found)
    assert max(off for off, _ in found) > 1e-3


def model(seed, sharpness=2.0, **options):
    """Logits that depend on the last two tokens."""
    rows = np.random.default_rng(seed).normal(size=(8, 8, 8)) * sharpness
    return TableModel(
        lambda tokens: rows[tokens[-1], tokens[-2] if len(tokens) > 1 else 0], n_vocab=8, **options
    )


def schedules():
    slow = CostTable(widths=((1, 1.0), (2, 2.0), (4, 4.0)), draft_s=0.9)
    return {
        "fixed": FixedSchedule(3),
        "step": StepSchedule(2),
        "confidence": ThresholdSchedule(6, 0.4),
        "auto, nothing known": PacedSchedule(),
        "auto, drafting is cheap": PacedSchedule(Memory(profile=Profile(CHEAP)), exploration=1.0),
        "auto, drafting is dear": PacedSchedule(Memory(profile=Profile(slow))),
    }


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), temperature=st.sampled_from([0.0, 0.7, 1.5]), n=st.integers(1, 2))
@pytest.mark.parametrize("widths", [None, frozenset({1, 2, 4, 8})])
def test_a_seeded_text_is_the_same_under_every_schedule(widths, seed, temperature, n):
    params = Params(
        temperature=temperature, seed=seed, max_tokens=30, n=n, repetition_penalty=1.1, stop=(" 3 3 3",)
    )

    def texts(drafter, schedule):
        options = {} if widths is None else {"widths": widths}
        engine = Engine(
            model(seed % 97, n_slots=2, **options), drafter, schedule=schedule, exact=widths is not None
        )
        return [result.ids for result in engine.generate_many([1, 2, 1, 2], params)]

    plain = texts(None, FixedSchedule())
    for name, schedule in schedules().items():
        assert texts(ModelDrafter(model(seed % 89, n_slots=2)), schedule) == plain, name
    for name, schedule in schedules().items():
        assert texts(NgramDrafter(1, 3), schedule) == plain, name


def test_a_round_without_a_draft_makes_no_pass_of_the_draft_model():
    dear = CostTable(widths=((1, 1e-4), (2, 1.0)), draft_s=5.0, read_s=5.0)
    draft = model(2)
    engine = Engine(model(1), ModelDrafter(draft), schedule=PacedSchedule(Memory(profile=Profile(dear))))
    result = engine.generate([1, 2], Params(temperature=0.0, max_tokens=60))
    assert draft.passes == []
    assert result.usage.drafted == 0
    assert result.speculation.enabled is False
    assert result.speculation.reason.startswith("off: drafting is predicted to give 0.0")
    assert result.speculation.reason.endswith("x here")


def test_an_answer_too_short_to_learn_from_says_why_nothing_was_drafted():
    dear = CostTable(widths=((1, 1e-4), (2, 1.0)), draft_s=5.0, read_s=5.0)
    engine = Engine(model(1), ModelDrafter(model(2)), schedule=PacedSchedule(Memory(profile=Profile(dear))))
    speculation = engine.generate([1, 2], Params(temperature=0.0, max_tokens=4)).speculation
    assert speculation.reason.startswith("off: drafting is predicted to give 0.0")


def test_predictions_reach_the_result():
    engine = Engine(model(1), ModelDrafter(model(1)), schedule=PacedSchedule(Memory(profile=Profile(CHEAP))))
    out = engine.generate([1, 2], Params(temperature=0.0, max_tokens=60)).to_json()
    assert out["drafted"] > 0
    assert out["schedule"]["name"] == "auto"
    assert out["schedule"]["predicted_gain"] > 0
    assert out["schedule"]["calibration"]["n"] >= out["accepted"]
    plain = replace(Params(temperature=0.0, max_tokens=5), speculate=False)
    assert engine.generate([1, 2], plain).to_json()["schedule"]["predicted_gain"] is None
