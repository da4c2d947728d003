"""The paced schedule against the best there was: simulated pairs with measured costs and given acceptance."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from simulated import TABLES, answer, best_fixed, first_measurement, perfect, simulate, table, useless

from leadout.core.cost import CostTable
from leadout.core.estimate import Calibration
from leadout.core.values import Proposal
from leadout.drafters.base import Untried
from leadout.engine.books import LOSS_BY_DRAFTS, Books, RequestBooks
from leadout.engine.events import Round
from leadout.engine.memory import Exploration, Memory, keep, recall
from leadout.engine.pace import PacedSchedule
from leadout.engine.profile import Profile
from leadout.engine.schedule import RoundState
from leadout.errors import InputError
from leadout.models.remember import Findings

N = 220
TEXTS = {
    "chat": lambda rng: answer(rng, N, chance=0.75),
    "code": lambda rng: answer(rng, N, chance=0.9),
    "edit": lambda rng: answer(rng, N, chance=0.96),
    "prose, then code": lambda rng: answer(rng, N, parts=[0.6, 0.95]),
    "code, then prose": lambda rng: answer(rng, N, parts=[0.95, 0.6]),
    "a draft that is too shy": lambda rng: answer(rng, N, chance=0.9, bias=-1.5),
    "a draft that is too bold": lambda rng: answer(rng, N, chance=0.7, bias=1.5),
    "perfect": lambda rng: perfect(rng, N),
}


def schedule(told, costs, kind="model"):
    if kind == "model":
        return PacedSchedule(Memory.of_startup(first_measurement(told, costs), "sim"))
    return PacedSchedule(Memory(profile=Profile(costs)))


def requests(name, make, kind, n=4, seed=0):
    """Runs of n requests of one schedule: (speed as a multiple of plain, that of the best fixed k, run)."""
    costs, rng = table(name), np.random.default_rng(seed)
    paced, found = schedule(make(rng), costs, kind), []
    for _ in range(n):
        told = make(rng)
        run = simulate(paced, told, costs, rng=rng, kind=kind)
        plain_s = N * costs.verify_s(1)
        found.append((plain_s / run.seconds, plain_s / best_fixed(told, costs, kind=kind)[0], run))
    return paced, found


KNOWN_MISS = ("Q8_0 llama", "prose, then code", "model")
KNOWN_MISS_REASON = (
    "reaches 0.94 of the best fixed choice in hindsight, not 0.95: drafting is taken up again too late"
)


@pytest.mark.parametrize("kind", ["model", "lookup"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", TABLES)
def test_it_is_never_slower_and_near_the_best_fixed_choice(request, name, text, kind):
    if (name, text, kind) == KNOWN_MISS:
        request.applymarker(pytest.mark.xfail(reason=KNOWN_MISS_REASON, strict=True))
    found, explored = [], []
    for seed in range(2):
        paced, runs = requests(name, TEXTS[text], kind, seed=seed)
        found += runs
        explored.append(paced.explored)
    speeds = [speed for speed, _, _ in found]
    assert min(speeds) >= 0.97
    assert np.mean([speed / best for speed, best, _ in found]) >= 0.95
    assert np.mean(explored) <= 0.02


@pytest.mark.parametrize("confidence", [0.01, 0.9])
@pytest.mark.parametrize("kind", ["model", "lookup"])
@pytest.mark.parametrize("name", TABLES)
def test_a_useless_draft_costs_next_to_nothing_and_is_said_to_be_off(name, kind, confidence):
    _, found = requests(name, lambda rng: useless(rng, N, confidence), kind)
    assert min(speed for speed, _, _ in found) >= 0.97
    _, _, last = found[-1]
    assert np.mean(last.ks) < 0.5
    if last.ending is not None:
        assert re.match(
            r"drafting is predicted to (give (0\.|1\.0)|gain too little here to be worth the risk \(1\.0)",
            last.ending.reason,
        )


@pytest.mark.parametrize("name", ["Q8_0 llama", "Q8_0 ik", "F16 llama", "Q4_K_M ik"])
def test_a_perfect_draft_reaches_its_best_length_within_ten_rounds(name):
    costs, rng = table(name), np.random.default_rng(1)
    told = perfect(rng, N)
    run = simulate(schedule(told, costs), told, costs, rng=rng)
    by_k = {k: (k + 1) / (costs.drafting_s(k, 2) + costs.verify_s(k + 1)) for k in range(16)}
    assert max(by_k[k] for k in run.ks[:10]) >= 0.95 * max(by_k.values())


def test_a_width_that_is_dearer_than_a_wider_one_is_avoided():
    costs = CostTable(widths=((1, 0.061), (4, 0.13), (8, 0.4), (12, 0.2), (16, 0.21)))
    rng = np.random.default_rng(2)
    told = perfect(rng, 400)
    run = simulate(PacedSchedule(Memory(profile=Profile(costs))), told, costs, rng=rng, kind="lookup")
    late = run.ks[15:-2]
    assert min(late) >= 11


def test_exact_mode_ends_drafts_at_allowed_lengths_only():
    rng, ks = np.random.default_rng(4), [0, 1, 2, 3, 7]
    for kind in ("model", "lookup"):
        told = answer(rng, N, chance=0.9)
        run = simulate(
            schedule(told, table("Q8_0 ik"), kind), told, table("Q8_0 ik"), rng=rng, kind=kind, ks=ks
        )
        assert set(run.ks) <= set(ks)
        assert {3, 7} & set(run.ks)


def test_predictions_beat_the_running_mean_by_a_fifth():
    scores = Calibration()
    for seed in range(4):
        _, found = requests(
            "F16 llama", lambda rng: answer(rng, N, chance=0.75, spread=2.5), "model", seed=seed
        )
        for _, _, run in found:
            for predicted, stood in run.verdicts:
                scores = scores.add(predicted, stood)
    assert scores.n > 1000
    assert scores.brier <= 0.8 * scores.brier_of_mean


def test_drafting_comes_back_when_the_text_becomes_easy():
    rng = np.random.default_rng(6)
    told = answer(rng, 900, parts=[0.2, 0.97, 0.97])
    run = simulate(schedule(told, table("Q8_0 ik"), "lookup"), told, table("Q8_0 ik"), rng=rng, kind="lookup")
    assert np.mean(run.ks[50:250]) < 1
    assert np.mean(run.ks[-40:]) > 3


def test_a_long_prompt_is_read_only_where_that_pays():
    rng, costs = np.random.default_rng(7), table("Q4_K_M ik")
    told = answer(rng, N, chance=0.9)
    run = simulate(schedule(told, costs), told, costs, rng=rng, n_prompt=4000)
    assert run.ks == [0] * N
    assert run.ending.n_tokens == 0
    assert "tokens with the draft sim would cost more than it is predicted to gain" in run.ending.reason


def test_a_draft_that_was_unsure_of_prose_is_found_to_know_code():
    widths = {1: 60, 2: 94, 3: 104, 4: 112, 6: 132, 8: 158, 12: 186, 16: 212}  # ms; F16, when memory is fast
    costs = CostTable(widths=tuple((w, ms / 1000) for w, ms in widths.items()), draft_s=0.0125, read_s=0.0017)
    speeds = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        texts = [answer(rng, 96, chance=chance) for chance in (0.5, 0.5, 0.5, 0.5, 0.97, 0.97)]
        paced = schedule(texts[0], costs)
        runs = [simulate(paced, told, costs, rng=rng, n_prompt=93) for told in texts]
        speeds.append(96 * costs.verify_s(1) / runs[-1].seconds)
        assert paced.explored <= 0.03
    assert np.median(speeds) >= 1.6


def test_a_request_leaves_nothing_but_learned_numbers():
    costs = table("Q8_0 ik")

    def second(first):
        paced = schedule(answer(np.random.default_rng(0), N, chance=0.9), costs)
        if first:
            simulate(paced, first(np.random.default_rng(8)), costs, rng=np.random.default_rng(9), noise=0)
            paced = PacedSchedule(Memory.from_json(paced.memory.to_json()))
        return paced

    used = second(lambda rng: answer(rng, N, chance=0.7))
    again = PacedSchedule(Memory.from_json(used.memory.to_json()))
    told = answer(np.random.default_rng(10), N, chance=0.9)
    runs = [simulate(each, told, costs, rng=np.random.default_rng(11)) for each in (used, again)]
    assert runs[0].ks == runs[1].ks
    assert used._requests == {}


def test_what_may_be_explored_is_kept_for_the_next_process():
    """A single answer may not lose what reading its prompt for the draft costs; two together may."""
    costs = CostTable(widths=((1, 0.06), (2, 0.09), (4, 0.11), (8, 0.16)), draft_s=0.0125, read_s=0.0017)
    prose = answer(np.random.default_rng(0), 96, chance=0.5)
    values = Memory.of_startup(first_measurement(prose, costs), "sim").to_json()
    n_drafts = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        paced = PacedSchedule(Memory.from_json(values))
        n_drafts.append(
            np.count_nonzero(simulate(paced, answer(rng, 96, chance=0.97), costs, rng=rng, n_prompt=93).ks)
        )
        values = json.loads(json.dumps(paced.memory.to_json()))
    assert n_drafts[0] == 0
    assert min(n_drafts[1:]) > 0


def test_what_was_explored_long_ago_is_forgotten():
    account = Exploration()
    account.add(10.0, 5.0)
    account.add(1.0, -9.0)
    assert account.lost_s == 0.0
    account.add(1.0, 3.0)
    for _ in range(2000):
        account.add(1.0)
    assert account.share < 1e-6
    account.add(1.0, 3.0)
    assert account.share == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize(
    ("ms", "draft_s", "read_s", "mood"),
    [
        ({1: 60, 2: 94, 4: 112, 8: 158, 16: 212}, 0.0125, 0.0017, "daring"),  # F16 through llama.cpp
        (
            {1: 27, 2: 48, 4: 70, 8: 92, 16: 110},
            0.009,
            0.0014,
            "fair",
        ),  # as much for reading, beside a fast one
    ],
)
def test_a_new_text_is_read_to_learn_only_beside_a_slow_target(ms, draft_s, read_s, mood):
    costs = CostTable(
        widths=tuple((width, each / 1000) for width, each in ms.items()), draft_s=draft_s, read_s=read_s
    )
    prose = answer(np.random.default_rng(2), 96, chance=0.5)
    memory = Memory.of_startup(first_measurement(prose, costs), "sim")
    memory.confidences["sim"].first.extend([0.6] * 24 + [0.999] * 8)
    memory.exploration.add(30.0)
    paced = PacedSchedule(memory)
    paced.begin(0)
    judge = paced.judge(0, RoundState(position=1, n_left=95, n_active=1, ks=range(16)))
    judge.promise("sim", 85)
    assert judge.courses["sim"].mood == mood


def test_lookups_make_good_what_the_last_answers_lost():
    books, fresh = Books(Exploration(), 0.02), RequestBooks()
    usual, drafts = books.lookups_allowance_s(fresh, 5.0), books.allowance_s(fresh, 5.0, LOSS_BY_DRAFTS)
    books.close(RequestBooks(lost_s=0.2))
    assert books.lookups_allowance_s(fresh, 5.0) == pytest.approx(usual - 0.1)
    assert books.allowance_s(fresh, 5.0, LOSS_BY_DRAFTS) == drafts
    books.close(RequestBooks())
    assert books.lookups_allowance_s(fresh, 5.0) == pytest.approx(usual - 0.05)
    books.close(RequestBooks(lost_s=-2.0))
    assert books.lookups_allowance_s(fresh, 5.0) == pytest.approx(usual + 0.1)


def test_slots_do_not_meet():
    costs = table("Q8_0 ik")
    told = answer(np.random.default_rng(12), N, chance=0.9)
    paced = schedule(told, costs)
    paced.begin(5)
    run = simulate(paced, told, costs, rng=np.random.default_rng(13))
    alone = simulate(schedule(told, costs), told, costs, rng=np.random.default_rng(13))
    assert run.ks == alone.ks


def test_nothing_is_drafted_before_a_plain_pass_was_measured():
    paced = PacedSchedule()
    paced.begin(0)
    assert paced.plan(0) == 0
    assert paced.forecast(0, Proposal()) is None
    plain = Round(index=0, drafter="none", drafted=0, accepted=0, emitted=1, draft_s=0, verify_s=0.05,
                  other_s=0.001, width=1)  # fmt: skip
    paced.observe(0, plain)
    assert paced.plan(0) > 0
    assert paced.forecast(0, Proposal()).plain_s == pytest.approx(0.05, rel=0.1)
    assert paced.end(0) is None
    assert paced.end(0) is None


def test_more_slots_make_a_drafted_token_dearer():
    costs = CostTable(widths=((1, 1.0), (2, 1.1), (3, 2.0), (4, 3.0)), draft_s=0.01)
    paced = PacedSchedule(Memory(profile=Profile(costs)))
    paced.begin(0)
    alone = paced.judge(0, RoundState(position=9, n_left=50, n_active=1, ks=range(2))).weigh("x", [0.6])
    shared = paced.judge(0, RoundState(position=9, n_left=50, n_active=2, ks=range(2))).weigh("x", [0.6])
    assert (alone.k, shared.k) == (1, 0)


def test_a_drafted_token_is_dearer_behind_a_long_context():
    costs = CostTable(widths=((1, 1.0), (2, 1.3), (3, 1.6)), attention_s=1e-4)
    paced = PacedSchedule(Memory(profile=Profile(costs)))
    paced.begin(0)
    short = RoundState(position=9, n_left=50, n_active=1, ks=range(3), n_held=100)
    long = replace(short, n_held=8000)
    assert [paced.judge(0, state).weigh("x", [0.7, 0.7]).k for state in (short, long)] == [2, 0]


def test_what_was_learned_is_handed_over_and_kept(tmp_path):
    findings, costs = Findings("profiles", tmp_path / "deep"), table("Q8_0 ik")
    told = answer(np.random.default_rng(1), N, chance=0.9)
    memory = Memory.of_startup(first_measurement(told, costs), "sim")
    paced = PacedSchedule(memory, save=lambda learned: keep(findings, "pair", learned))
    simulate(paced, told, costs, rng=np.random.default_rng(1))
    paced.close()
    again = recall(findings, "pair")
    assert again.to_json() == memory.to_json()
    assert again.acceptance["sim"] == memory.acceptance["sim"]
    assert recall(findings, "nothing") is None
    findings.write("pair", {"version": 0})
    assert recall(findings, "pair") is None


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"version": 99}, "a memory of version 99 cannot be read"),
        ({"usual_length": "long"}, "a memory needs a usual_length >= 0, got 'long'"),
        ({"usual_length": 10**400}, "a memory needs a usual_length >= 0"),
        (
            {"acceptance": {"x": {"weights": [10**400, 0, 0, 0], "covariance": [[0.0] * 4] * 4}}},
            "an acceptance model needs rows of 4 numbers",
        ),
        ({"exploration": {"spent_s": 1.0}}, "exploration needs seconds for spent_s and lost_s"),
        ({"profile": 3}, "profile must be a mapping, got 3"),
        ({"confidences": {"x": {"first": [2.0], "later": [0.5]}}}, r"confidences must be numbers in 0..1"),
    ],
)
def test_a_damaged_memory_is_refused(damage, said):
    values = Memory(profile=Profile(table("Q8_0 ik"))).to_json() | damage
    with pytest.raises(InputError, match=said):
        Memory.from_json(values)


def test_numbers_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"longest is 65; it must be a whole number in 0\.\.64"):
        PacedSchedule(longest=65)
    with pytest.raises(InputError, match=r"exploration is 2; it must be a share in 0\.\.1"):
        PacedSchedule(exploration=2)


def paced_judge(costs, n_left):
    paced = PacedSchedule(Memory(profile=Profile(costs)))
    paced.begin(0)
    return paced.judge(0, RoundState(position=5, n_left=n_left, n_active=1, ks=range(9)))


def test_a_short_answer_takes_what_is_nearly_sure_and_nothing_doubtful():
    """A failed draft costs more than a short answer may lose, but one that is sure hardly ever fails."""
    judge = paced_judge(table("Q4_K_M llama"), n_left=6)
    assert judge.weigh("suffix", [0.97] * 8).k >= 3
    assert judge.weigh("suffix", [0.68] * 8).k == 0
    assert paced_judge(table("Q4_K_M llama"), n_left=400).weigh("suffix", [0.68] * 8).k > 0


def test_a_lookup_that_might_cost_more_than_is_allowed_is_refused_for_that_reason():
    judge = paced_judge(table("Q4_K_M llama"), n_left=6)
    assert judge.weigh("suffix", [0.68] * 8).k == 0
    assert re.fullmatch(
        r"drafting is predicted to give 1\.\d\dx here, but a draft that fails would lose more than an answer "
        "may lose",
        judge.refusal.reason,
    )
    judge = paced_judge(table("Q4_K_M llama"), n_left=4000)
    assert judge.weigh("suffix", [0.53] * 8).k == 0
    assert "is predicted to" in judge.refusal.reason
    assert "that fails" not in judge.refusal.reason


def test_a_long_text_is_not_read_for_a_model_while_lookups_serve_as_well():
    costs, told = table("F16 llama"), answer(np.random.default_rng(1), N, chance=0.9)
    memory = Memory.of_startup(first_measurement(told, costs), "sim")
    paced = PacedSchedule(memory)
    paced.begin(0)
    for _ in range(100):
        judge = paced.judge(0, RoundState(position=50, n_left=200, n_active=1, ks=range(9)))
        served = judge.weigh("suffix", [0.95] * 8).k
        assert served > 0
        assert judge.promise("sim", 1500) <= 0
        proposal = Proposal(tokens=(0,) * served, drafter="suffix", confidences=(0.95,) * served)
        paced.forecast(0, proposal)
        paced.observe(0, plain_round(costs.verify_s(served + 1), drafted=served, drafter="suffix"))


def test_what_earlier_answers_gained_pays_for_reading_only_where_no_lookup_is_at_hand():
    costs, rng = table("F16 llama", token_ms=12, read_ms=1.5), np.random.default_rng(1)
    told = perfect(rng, N)
    paced = PacedSchedule(Memory.of_startup(first_measurement(told, costs), "sim"))
    simulate(paced, told, costs, rng=rng)

    def promise(lookup, n_unread):
        paced.begin(0)
        judge = paced.judge(0, RoundState(position=1, n_left=N, n_active=1, ks=range(9)))
        assert bool(judge.weigh("suffix", lookup).k) == bool(lookup)
        return judge.promise("sim", n_unread)

    assert promise([], 600) > 0
    assert promise([0.6, 0.6], 600) == 0
    assert promise([0.6, 0.6], 10) > 0


def test_a_long_text_is_read_once_enough_was_missed_for_not_having_read_it():
    costs, told = table("F16 llama"), perfect(np.random.default_rng(1), N)
    paced = PacedSchedule(Memory.of_startup(first_measurement(told, costs), "sim"))
    paced.begin(0)
    asked = []
    for i in range(120):
        judge = paced.judge(0, RoundState(position=5 + i, n_left=2000, n_active=1, ks=range(9)))
        asked.append(judge.promise("sim", 400 + i) > 0)
        if asked[-1]:
            break
        paced.forecast(0, Proposal())
        paced.observe(0, plain_round(costs.verify_s(1)))
    assert 10 < len(asked) < 100
    assert asked[-1]


def test_a_text_whose_reading_takes_a_large_part_of_what_is_left_is_never_read():
    costs, told = table("F16 llama"), perfect(np.random.default_rng(1), N)
    paced = PacedSchedule(Memory.of_startup(first_measurement(told, costs), "sim"))
    paced.begin(0)
    for i in range(90):
        judge = paced.judge(0, RoundState(position=5 + i, n_left=95 - i, n_active=1, ks=range(9)))
        assert judge.promise("sim", 600 + i) == 0
        paced.forecast(0, Proposal())
        paced.observe(0, plain_round(costs.verify_s(1)))
    assert "tokens with the draft sim would cost more than it is predicted to gain" in paced.end(0).reason


def plain_round(seconds, drafted=0, drafter="none"):
    return Round(index=0, drafter=drafter, drafted=drafted, accepted=drafted, emitted=1 + drafted, draft_s=0,
                 verify_s=seconds, other_s=0.0, width=1 + drafted)  # fmt: skip


def test_slots_that_draft_in_the_same_passes_share_what_these_cost():
    """A pass gains more tokens the more slots draft in it, so it pays with many where it does with one."""
    costs = CostTable(widths=((1, 1.0), (16, 1.01)), draft_s=0.4, read_s=0.001)
    told = perfect(np.random.default_rng(2), N)
    paced = PacedSchedule(Memory.of_startup(first_measurement(told, costs), "sim"), exploration=0)
    promised = []
    for n_active in (1, 2, 8):
        paced.begin(0)
        state = RoundState(position=2000, n_left=4000, n_active=n_active, ks=range(9))
        promised.append(paced.judge(0, state).promise("sim", 2))
    assert promised[0] > 0.5
    assert promised[1:] == pytest.approx([promised[0]] * 2, rel=0.1)


def test_costs_of_a_shared_pass_are_told_once():
    paced = PacedSchedule(Memory(profile=Profile(table("Q8_0 ik"))))
    state = RoundState(position=5, n_left=50, n_active=2, ks=range(4))
    for slot in (0, 1):
        paced.begin(slot)
        paced.judge(slot, state)
        paced.forecast(slot, Proposal())
    shared = Round(index=0, drafter="none", drafted=0, accepted=0, emitted=1, draft_s=0, verify_s=0.5,
                   other_s=0.0, width=2)  # fmt: skip
    for slot in (0, 1):
        paced.observe(slot, shared)
    assert paced.memory.profile.costs_of(2).verify_s(1) == pytest.approx(0.5)
    assert paced.memory.profile.costs.verify_s(1) == pytest.approx(0.084)


def untried(*, stood, n=8, failed=False):
    return Untried(
        drafter="suffix", confidences=(0.95,) * n, position=5, verified=0, stood=stood, failed=failed
    )


def test_drafting_goes_on_after_a_loss_once_it_would_have_gained_as_much():
    costs = table("Q4_K_M ik")
    paced = PacedSchedule(Memory(profile=Profile(costs)))
    paced.begin(0)

    def judge():
        return paced.judge(0, RoundState(position=5, n_left=90, n_active=1, ks=range(9)))

    def over(judge, drafted=0):
        proposal = Proposal(tokens=(0,) * drafted, drafter="suffix", confidences=(0.95,) * drafted)
        paced.forecast(0, proposal)
        lost = plain_round(costs.verify_s(1 + drafted), drafted=drafted, drafter="suffix")
        paced.observe(0, replace(lost, accepted=0, emitted=1))

    first = judge()
    assert first.weigh("suffix", [0.95] * 8).k > 1
    over(first, drafted=5)
    for _ in range(10):
        refused = judge()
        assert refused.weigh("suffix", [0.95] * 8).k == 0
        over(refused)
    learning = judge()
    learning.learns(untried(stood=8))
    over(learning)
    assert judge().weigh("suffix", [0.95] * 8).k > 1


def test_lookups_that_keep_failing_unverified_are_believed_less():
    def believed(*outcomes):
        paced = PacedSchedule(Memory(profile=Profile(table("Q4_K_M ik"))))
        paced.begin(0)
        judge = paced.judge(0, RoundState(position=5, n_left=90, n_active=1, ks=range(9)))
        for each in outcomes:
            judge.learns(each)
        return judge.weigh("suffix", [0.8] * 8).worth

    assert believed(*[untried(stood=0, failed=True)] * 20) == 0
    assert believed(*[untried(stood=8)] * 5) > believed() > 0
