"""A draft model that goes on after a lookup's run: when it pays, what is charged, who learns from it."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from simulated import table
from toys import GREEDY, hashed, plain

from leadout.core.cost import CostTable, draft_policy
from leadout.core.estimate import AcceptanceModel
from leadout.core.values import Proposal
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.events import Round
from leadout.engine.judge import PacedJudge
from leadout.engine.memory import Memory
from leadout.engine.outlook import Outlook
from leadout.engine.pace import PacedSchedule
from leadout.engine.params import Params
from leadout.engine.profile import Profile
from leadout.engine.schedule import RoundState
from leadout.testing import TableModel

FREE = CostTable(widths=((1, 1.0), (65, 1.0001)), draft_s=0.01, read_s=0.001)


@dataclass
class Sure:
    """Beliefs that trust confidences, in a draft whose rows stand with one chance."""

    chance: float

    def acceptance(self, drafter, mood):
        return AcceptanceModel()

    def resting(self, drafter):
        return None

    def missed(self, drafter):
        return 0.0

    def policy(self, drafter, outlook, mood):
        chances = np.full((outlook.state.ks[-1], 5), self.chance)
        return draft_policy(chances, outlook.costs, outlook.rate, ks=outlook.state.ks)


class Hoping(Sure):
    """Beliefs that expect nothing of a draft, and may hope for much in a text that it was not asked in."""

    def is_new_to(self, drafter):
        return True

    def policy(self, drafter, outlook, mood):
        return Sure(self.chance if mood == "daring" else 0.01).policy(drafter, outlook, mood)


def judge(costs, *, chance=0.9, ks=range(9), n_left=30.0):
    outlook = Outlook(
        state=RoundState(position=20, n_left=100, n_active=1, ks=ks), costs=costs, rate=1 / costs.plain_s(),
        n_left=n_left, tokens_per_round=1.0, budget_s=0.0, daring_budget_s=0.0, allowance_s=math.inf,
        draft_allowance_s=math.inf, margin=0.0,
    )  # fmt: skip
    return PacedJudge(outlook, Sure(chance))


def run_of(n, confidence):
    return Proposal(tokens=(1,) * n, drafter="suffix", confidences=(confidence,) * n)


def test_going_on_pays_after_a_sure_run_and_not_after_a_doubtful_one():
    costs = table("Q8_0 ik")
    assert judge(costs).after_run("m", run_of(3, 0.99), 4) is not None
    assert judge(costs).after_run("m", run_of(3, 0.3), 4) is None
    assert judge(FREE, chance=0.001).after_run("m", run_of(3, 0.99), 4) is None


@pytest.mark.parametrize(("confidence", "k"), [(0.99, 1), (0.7, 0)])
def test_a_gain_of_a_tenth_of_its_cost_is_taken_where_it_is_sure_and_left_where_it_is_doubtful(confidence, k):
    chance = AcceptanceModel().predict(confidence, 0, 20).mean
    costs = CostTable(widths=((1, 1.0), (2, 1.0 + chance / 1.1)))
    assert judge(costs, ks=range(2)).weigh("suffix", [confidence]).k == k


@pytest.mark.parametrize(
    ("allowance_s", "k"), [(1.0, 3), (2.5, 5), (math.inf, 8)], ids=["short answer", "long answer", "no bound"]
)
def test_lookup_that_fails_loses_twice_what_is_allowed_or_three_plain_passes(allowance_s, k):
    """However sure it is: its chance to fail bounds what is lost on average, this what is lost at once."""
    costs = CostTable(widths=((1, 1.0), (9, 9.0)))
    assert replace(judge(costs).outlook, allowance_s=allowance_s).lookups_within(0.001)[-1] == k


@pytest.mark.parametrize(("n_left", "mood"), [(95.0, "daring"), (30.0, "fair")])
def test_new_text_is_read_where_the_rest_of_the_answer_could_repay_it_five_times(n_left, mood):
    """Reading costs 5 plain passes; drafts of 8 that all stand save eight ninths of those that are left."""
    costs = replace(FREE, read_s=0.05)
    outlook = replace(judge(costs, n_left=n_left).outlook, daring_budget_s=math.inf)
    hoping = PacedJudge(outlook, Hoping(0.9999))
    hoping.promise("m", 101)
    assert hoping.courses["m"].mood == mood


def test_reading_the_run_and_what_was_missed_is_charged():
    dear = replace(FREE, read_s=0.05)
    assert judge(dear).after_run("m", run_of(3, 0.99), 4) is not None
    assert judge(dear, n_left=3.0).after_run("m", run_of(3, 0.99), 400) is None


def test_no_run_may_be_longer_than_the_longest_draft_or_end_at_a_length_that_is_not_allowed():
    assert judge(FREE).after_run("m", run_of(8, 0.99), 9) is None
    gaps = judge(FREE, ks=[0, 1, 2, 3, 7])
    assert gaps.after_run("m", run_of(3, 0.99), 4) is gaps
    assert gaps.after_run("m", run_of(4, 0.99), 5) is None


def test_rows_count_from_the_end_of_the_run():
    found = judge(FREE)
    assert found.promise("m", 1) > 0  # a whole draft was thought of first
    assert found.after_run("m", run_of(5, 0.99), 6) is found
    sure: list[float] = []
    while found.takes("m", [*sure, 0.99]):
        sure.append(0.99)
        if not found.goes_on("m", sure):
            break
    assert len(sure) == 3  # 5 given and 3 drafted are the longest
    course = found.courses["m"]
    assert (course.n_given, course.n_rows, course.n_unread) == (5, 3, 6)


def test_gain_of_a_pass_is_what_it_adds_to_verifying_now():
    policy = draft_policy(np.full((3, 5), 0.5), FREE, 1.0, ks=[0, 1, 3])
    assert policy.gain(0, 1.0) == pytest.approx(policy.worth)
    assert policy.gain(1, 0.0) == pytest.approx(-FREE.draft_s, abs=1e-3)
    assert policy.gain(2, 1.0) == policy.gain(3, 1.0) == -math.inf


def test_lookup_learns_from_the_run_and_the_model_from_its_own_tokens():
    schedule = PacedSchedule(Memory(profile=Profile(FREE)))
    schedule.begin(0)
    made = schedule.judge(0, RoundState(position=20, n_left=100, n_active=1, ks=range(9)))
    assert made.after_run("m", run_of(3, 0.99), 4) is made
    assert made.takes("m", [0.7])
    proposal = Proposal(
        tokens=(1,) * 4, drafter="m", confidences=(0.99, 0.99, 0.99, 0.7), n_given=3, given_by="suffix"
    )
    forecast = schedule.forecast(0, proposal)
    assert len(forecast.chances) == 4
    outcome = Round(
        index=0, drafter=proposal.source, drafted=4, accepted=4, emitted=5,
        draft_s=0.013, verify_s=1.0, other_s=0.0, width=5, forecast=forecast,
    )  # fmt: skip
    schedule.observe(0, outcome)
    memory = schedule.memory
    assert set(memory.acceptance) == {"suffix", "m"}
    assert set(memory.confidences) == {"m"}
    assert memory.profile.costs.draft_s == pytest.approx(0.01, rel=0.05)  # one pass, and 3 tokens read


@pytest.mark.parametrize("params", [GREEDY, Params(temperature=1.0, seed=5)])
def test_text_of_a_paced_hybrid_is_that_of_plain_decoding(params):
    params = replace(params, max_tokens=100)
    rule = hashed(9, spread=4.0)
    expected = plain(rule, [1, 2, 3], params, 9)
    draft = ModelDrafter(TableModel(rule, n_vocab=9, name="m"))
    drafter = HybridDrafter([SuffixDrafter(), NgramDrafter()], draft)
    schedule = PacedSchedule(Memory(profile=Profile(FREE)))
    engine = Engine(TableModel(rule, n_vocab=9), drafter, schedule=schedule)
    for _ in range(2):
        result = engine.generate([1, 2, 3], params)
        assert (result.ids, result.text) == (expected.ids, expected.text)
