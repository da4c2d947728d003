"""Several drafters as one: who is taken, what the model reads, what stays exact, what a failure leaves."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from leadout.core import verify
from leadout.core.noise import RandomSource
from leadout.core.values import Distribution, History, Proposal, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest, Weighed
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.model import ModelDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.drafters.suffix import SuffixDrafter
from leadout.engine.engine import Engine
from leadout.engine.events import Round
from leadout.engine.params import Params
from leadout.engine.schedule import FixedSchedule
from leadout.errors import InputError
from leadout.testing import ScriptedDrafter, TableModel, first_order, saying
from leadout.testing.enumeration import continued, joint_law, largest_difference, outcomes, random_table

GREEDY = Params(temperature=0.0)
PLUS_ONE = saying(lambda tokens: (tokens[-1] + 1) % 10, 10)


@dataclass
class Scale:
    """A judge with fixed worths and promises by name, and the draft length it goes on to."""

    worths: dict = field(default_factory=dict)
    promises: dict = field(default_factory=dict)
    longest: int = 64
    least: float = 0.0
    tail: object = None
    wants_confidences: bool = True
    asked: list = field(default_factory=list)
    learned: list = field(default_factory=list)

    def learns(self, outcome):
        self.learned.append(outcome)

    def weigh(self, drafter, confidences):
        worth = self.worths.get(drafter, 0.0)
        return Weighed(k=min(self.longest, len(confidences)) if worth else 0, worth=worth)

    def promise(self, drafter, n_unread):
        self.asked.append((drafter, n_unread))
        return self.promises.get(drafter, 0.0)

    def after_run(self, drafter, run, n_unread):
        self.asked.append((run.drafter, run.tokens, drafter, n_unread))
        return self.tail

    def takes(self, drafter, confidences):
        return len(confidences) < 2 or confidences[-1] >= self.least

    def goes_on(self, drafter, confidences):
        self.asked.append((drafter, tuple(confidences)))
        return len(confidences) < self.longest


def outcomes_of_lookups(drafter, *committed, worths=None, longest=64):
    """What the judges of the rounds of one request learn, when these tokens are committed in turn.

    The second round may verify lookups.
    """
    learned, context = [], [1]
    drafter.begin(0, DraftPrompt(ids=[1]))
    for position, tokens in enumerate((*committed, [])):
        judge = Scale(worths=(worths or {}) if position == 1 else {}, longest=longest, learned=learned)
        drafter.propose([request(list(context), 3, judge=judge, position=len(context) - 1)])
        drafter.observe(0, tokens)
        context += tokens
    drafter.end(0)
    return [(each.drafter, each.position, each.verified, each.stood, each.failed) for each in learned]


def request(context, k, slot=0, **changes):
    made = DraftRequest(
        slot=slot, context=context, k=k, sampling=Sampling(temperature=0.0), history=History(), position=0,
        noise=None, source=RandomSource(np.random.default_rng(1)),
    )  # fmt: skip
    return replace(made, **changes)


def lookup(name, *tokens, confidence=0.5):
    """Always proposes these tokens."""

    def script(asked):
        kept = tokens[: asked.k]
        return Proposal(tokens=kept, drafter=name, confidences=(confidence,) * len(kept))

    return ScriptedDrafter(script, name=name)


def counting(**options):
    return TableModel(PLUS_ONE, n_vocab=10, name="counting", **options)


def one(drafter, context, k, **changes):
    drafter.begin(0, DraftPrompt(ids=context))
    (proposal,) = drafter.propose([request(context, k, **changes)])
    return proposal


def test_lookup_of_the_highest_worth_is_taken_and_of_equals_the_first():
    drafter = HybridDrafter([lookup("a", 1), lookup("b", 2), lookup("c", 3)])
    drafter.begin(0, DraftPrompt(ids=[5]))
    for worths, drafter_name, tokens in (
        ({"a": 1.0, "b": 2.0, "c": 1.5}, "b", (2,)),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "a", (1,)),
        ({"c": 0.1}, "c", (3,)),
        ({}, "a+b+c", ()),
    ):
        (proposal,) = drafter.propose([request([5], 4, judge=Scale(worths))])
        assert (proposal.drafter, proposal.tokens) == (drafter_name, tokens)


def test_model_is_taken_where_it_promises_more_and_charged_for_what_it_has_not_read():
    draft = counting()
    drafter = HybridDrafter([lookup("a", 7)], ModelDrafter(draft))
    judge = Scale({"a": 1.0}, {"counting": 1.5})
    proposal = one(drafter, [1, 2, 3], 4, judge=judge)
    assert (proposal.drafter, proposal.tokens) == ("counting", (4, 5, 6, 7))
    assert judge.asked[0] == ("counting", 3)
    drafter.observe(0, [4, 5])
    judge = Scale({"a": 1.0}, {"counting": 0.9})
    (proposal,) = drafter.propose([request([1, 2, 3, 4, 5], 4, judge=judge)])
    assert (proposal.drafter, proposal.tokens) == ("a", (7,))
    assert judge.asked[0] == ("counting", 1)


def test_model_drafts_all_slots_that_want_it_in_the_same_passes():
    draft = counting(n_slots=3)
    drafter = HybridDrafter([lookup("a", 7)], ModelDrafter(draft))
    for slot in range(3):
        drafter.begin(slot, DraftPrompt(ids=[slot]))
    wants, does_not = Scale({"a": 1.0}, {"counting": 2.0}), Scale({"a": 1.0})
    proposals = drafter.propose(
        [request([0], 2, 0, judge=wants), request([1], 2, 1, judge=does_not), request([2], 2, 2, judge=wants)]
    )
    assert [each.tokens for each in proposals] == [(1, 2), (7,), (3, 4)]
    assert [[fed.slot for fed in each] for each in draft.passes] == [[0, 2], [0, 2]]


def test_run_of_a_lookup_is_followed_by_the_model_which_reads_it_first():
    draft = counting()
    drafter = HybridDrafter([lookup("a", 7, 3)], ModelDrafter(draft))
    tail = Scale(promises={"counting": 0.5})
    judge = Scale({"a": 1.0}, tail=tail)
    proposal = one(drafter, [1, 2], 5, judge=judge)
    assert (proposal.source, proposal.tokens, proposal.rows) == ("a+counting", (7, 3, 4, 5, 6), None)
    assert proposal.confidences[:2] == (0.5, 0.5)
    assert (proposal.drafter, proposal.given_by, proposal.n_given) == ("counting", "a", 2)
    assert len(proposal.confidences) == 5
    assert [fed.tokens for (fed,) in draft.passes] == [(1, 2, 7, 3), (4,), (5,)]
    assert judge.asked[-1] == ("a", (7, 3), "counting", 4)
    assert [len(each) for _, each in tail.asked[1:]] == [1, 2]  # rows count from the end of the run


def test_tail_ends_where_its_judge_says():
    drafter = HybridDrafter([lookup("a", 7, 3)], ModelDrafter(counting()))
    judge = Scale({"a": 1.0}, tail=Scale(promises={"counting": 0.5}, longest=1))
    assert one(drafter, [1, 2], 9, judge=judge).tokens == (7, 3, 4)


@pytest.mark.parametrize(("tail", "k"), [(None, 5), (Scale(promises={"counting": 0.5}), 2)])
def test_tail_is_left_out_where_it_does_not_pay_or_fit(tail, k):
    draft, judge = counting(), Scale({"a": 1.0}, tail=tail)
    proposal = one(HybridDrafter([lookup("a", 7, 3)], ModelDrafter(draft)), [1, 2], k, judge=judge)
    assert (proposal.source, proposal.tokens, draft.passes) == ("a", (7, 3), [])


def test_run_stays_where_its_tail_is_refused_at_the_first_row():
    class Refusing(Scale):
        def takes(self, drafter, confidences):
            return False

    draft, judge = counting(), Scale({"a": 1.0}, tail=Refusing(promises={"counting": 0.5}))
    proposal = one(HybridDrafter([lookup("a", 7, 3)], ModelDrafter(draft)), [1, 2], 5, judge=judge)
    assert (proposal.source, proposal.tokens, len(draft.passes)) == ("a", (7, 3), 1)


def test_run_that_the_draft_model_cannot_read_stays_without_a_tail():
    draft = counting()
    drafter = HybridDrafter([lookup("a", 7, 11)], ModelDrafter(draft))
    proposal = one(drafter, [1, 2], 5, judge=Scale({"a": 1.0}, tail=Scale(promises={"counting": 0.5})))
    assert (proposal.drafter, proposal.tokens) == ("a", (7, 11))
    assert (draft.passes, drafter.limited(0)) == ([], "")


def test_rows_of_a_run_are_points_and_those_of_its_tail_what_the_model_drew_from():
    draft = TableModel(first_order(np.random.default_rng(2).normal(0, 1, (10, 10))), n_vocab=10, name="m")
    sampling, history = Sampling(temperature=1.0, frequency_penalty=0.5), History(generated=(2,))
    judge = Scale({"a": 1.0}, {"m": 1.0}, tail=Scale(promises={"m": 1.0}))
    changes = {"sampling": sampling, "judge": judge}
    mixed = one(
        HybridDrafter([lookup("a", 7, 3)], ModelDrafter(draft)), [1, 2], 4, history=history, **changes
    )
    alone = ModelDrafter(TableModel(draft._rule, n_vocab=10, name="m"))
    after = history.after((7, 3))
    expected = one(alone, [1, 2, 7, 3], 2, history=after, position=2, **changes)
    assert mixed.tokens == (7, 3, *expected.tokens)
    rows = [Distribution.point(7), Distribution.point(3), *expected.rows]
    for row, wanted in zip(mixed.rows, rows, strict=True):
        assert np.array_equal(row.ids, wanted.ids)
        assert np.array_equal(row.probs, wanted.probs)


@pytest.mark.parametrize("rule", [verify.block, verify.token])
@pytest.mark.parametrize("seed", range(3))
def test_output_law_of_a_run_with_a_tail_is_the_targets(rule, seed):
    target = random_table(seed, 3)
    table = np.random.default_rng(seed).normal(0, 1, (3, 3))
    # how long the draft gets depends on rows, and so on tokens drawn before them
    judge = Scale({"a": 1.0}, tail=Scale(promises={"m": 1.0}, least=0.5))

    def program(source):
        model = TableModel(first_order(table), n_vocab=3, name="m")
        drafter = HybridDrafter([lookup("a", seed % 3)], ModelDrafter(model))
        sampling = Sampling(temperature=1.0, top_p=1.0)
        proposal = one(drafter, [0], 3, sampling=sampling, source=source, judge=judge)
        tokens = proposal.tokens
        verdict = rule(proposal, [target(tokens[:i]) for i in range(len(tokens) + 1)], source)
        return (*tokens[: verdict.accepted], verdict.token)

    emitted = list(outcomes(program))
    assert len({len(tokens) for tokens, _ in emitted}) > 1
    assert largest_difference(continued(emitted, target, 4), joint_law(target, 4)) < 1e-12


def hybrid(draft, **options):
    return HybridDrafter(
        [SuffixDrafter(min_score=0.0), NgramDrafter()], ModelDrafter(draft, **options) if draft else None
    )


@pytest.mark.parametrize(("k", "right"), [(k, right) for k in range(1, 9) for right in range(k + 1)])
@pytest.mark.parametrize("params", [GREEDY, Params(temperature=0.7, seed=3, presence_penalty=0.5)])
def test_speculation_says_what_plain_decoding_says_for_every_accept_pattern(k, right, params):
    prompt = [20, 21, 1, 2, 3, 4, 22]
    answer = [20, 21, *range(1, min(right, 4) + 1), *[30 + i for i in range(right - 4)], *range(10, 20)]
    target = saying(lambda tokens: answer[min(len(tokens) - 7, len(answer) - 1)], 40)
    # the draft knows what comes at the first 2 + right places, and nothing after them
    knows = saying(lambda tokens: answer[len(tokens) - 7] if 7 <= len(tokens) < 9 + right else 39, 40)
    params = replace(params, max_tokens=len(answer), logprobs=1)
    expected = Engine(TableModel(target, n_vocab=40)).generate(prompt, params)
    model, draft = TableModel(target, n_vocab=40), TableModel(knows, n_vocab=40, name="m")

    result = Engine(model, hybrid(draft), schedule=FixedSchedule(k)).generate(prompt, params)

    assert (result.ids, result.text) == (expected.ids, expected.text)
    assert [token.logprob for token in result.tokens] == [token.logprob for token in expected.tokens]
    context = (*prompt, *result.ids)
    for cached in (model, draft):
        assert cached.tokens(0) == context[: cached.length(0)]


def test_text_that_goes_beyond_an_earlier_one_is_drafted_by_lookup_and_model_together():
    question, first, beyond = [*range(1, 9)], [10, 11, 12, 13, 14, 15], [*range(20, 28)]
    rule = saying(lambda tokens: [*first, *beyond, 0][min(len(tokens) - 9, 14)], 30)
    draft = TableModel(rule, n_vocab=30, name="m")
    drafter = HybridDrafter([SuffixDrafter()], ModelDrafter(draft))
    engine = Engine(TableModel(rule, n_vocab=30), drafter, schedule=FixedSchedule(6))
    engine.generate([28, *question], replace(GREEDY, max_tokens=len(first)))
    before = len(draft.passes)
    events = list(engine.stream([29, *question], replace(GREEDY, max_tokens=14)))

    rounds = [event for event in events if isinstance(event, Round) and event.drafted]
    assert [(each.drafter, each.drafted, each.accepted) for each in rounds] == [
        ("suffix+m", 6, 6), ("m", 5, 5),
    ]  # fmt: skip
    fed = [each for (each,) in draft.passes[before:]]
    assert fed[0].tokens == (29, *question, *first)  # prompt, first token and the run, in one pass
    starts = [each.start for each in fed]
    assert starts == sorted(set(starts))  # no token of it is read twice


def test_blocked_model_leaves_the_lookups_at_work_and_the_reason_visible():
    prompt = [1, 2, 3, 4] * 3
    rule = saying(lambda tokens: len(tokens) % 4 + 1, 10)
    expected = Engine(TableModel(rule, n_vocab=10)).generate(prompt, replace(GREEDY, max_tokens=30))
    draft = TableModel(rule, n_vocab=10, n_ctx=20, name="m")
    engine = Engine(TableModel(rule, n_vocab=10), hybrid(draft), schedule=FixedSchedule(4))
    result = engine.generate(prompt, replace(GREEDY, max_tokens=30))
    assert result.ids == expected.ids
    assert result.speculation.enabled
    assert result.speculation.reason.startswith("on: draft suffix+ngram+m, fixed k=4; after ")
    assert result.speculation.reason.endswith(" tokens: the draft context is full (20 positions)")
    assert result.speculation.reason.count("full") == 1
    assert result.usage.target_passes < 10
    long = engine.generate(prompt * 2, replace(GREEDY, max_tokens=5))
    assert long.speculation.reason == (
        "on: draft suffix+ngram+m, fixed k=4; the draft context is full (20 positions)"
    )


def test_failed_model_leaves_the_lookups_at_work():
    draft = counting()
    draft.fail_at(2)
    engine = Engine(counting(n_ctx=128), hybrid(draft), schedule=FixedSchedule(4))
    result = engine.generate([1], replace(GREEDY, max_tokens=60))
    assert result.ids == tuple((2 + i) % 10 for i in range(60))
    assert result.speculation.enabled
    assert "the draft counting failed: forward 2 failed, as it was told to" in result.speculation.reason
    assert result.usage.accepted > 30


def test_hybrid_is_blocked_when_all_its_parts_are():
    a, b = lookup("a", 1), lookup("b", 2)
    drafter = HybridDrafter([a, b])
    assert (drafter.blocked(0), drafter.limited(0)) == ("", "")
    a.why_blocked = "a is full"
    assert (drafter.blocked(0), drafter.limited(0)) == ("", "a is full")
    b.why_limited = "a part of b is full"
    assert drafter.limited(0) == "a is full; a part of b is full"
    b.why_blocked = "b is full"
    assert (drafter.blocked(0), drafter.limited(0)) == ("a is full; b is full", "")


def test_every_part_hears_of_everything():
    parts = [lookup("a", 1), lookup("b", 2)]
    drafter = HybridDrafter(parts)
    drafter.begin(0, DraftPrompt(ids=[1, 2]))
    drafter.observe(0, [3])
    assert [part.told for part in parts] == [{0: [1, 2, 3]}] * 2
    drafter.end(0)
    drafter.close()
    assert [(part.told, part.ended, part.closed) for part in parts] == [({}, [0], True)] * 2


def test_part_that_fails_to_close_keeps_none_open():
    class Stuck(ScriptedDrafter):
        def close(self):
            raise RuntimeError("stuck")

    parts = [lookup("a", 1), Stuck(lambda _: []), lookup("b", 2)]
    with pytest.raises(RuntimeError, match="stuck"):
        HybridDrafter(parts).close()
    assert parts[0].closed
    assert parts[2].closed


def test_slots_run_together_and_say_what_they_say_alone():
    params = replace(GREEDY, max_tokens=24, n=3, temperature=1.0, seed=5)
    rule = first_order(np.random.default_rng(4).normal(0, 2, (8, 8)))
    expected = Engine(TableModel(rule, n_vocab=8)).generate_many([1, 2], params)
    drafter = hybrid(TableModel(rule, n_vocab=8, n_slots=3, name="m"))
    engine = Engine(TableModel(rule, n_vocab=8, n_slots=3), drafter, schedule=FixedSchedule(3))
    results = engine.generate_many([1, 2], params)
    assert [result.ids for result in results] == [result.ids for result in expected]
    assert sum(result.usage.accepted for result in results) > 0


def test_hybrid_without_parts_is_refused():
    with pytest.raises(InputError, match="needs at least one lookup or a draft model"):
        HybridDrafter([])


def test_what_became_of_a_lookup_that_was_not_verified_is_told_to_the_judge():
    drafter = HybridDrafter([lookup("a", 4, 5, 6), lookup("b", 4, 9)])
    told = outcomes_of_lookups(drafter, [4], [5], [6])
    assert told == [("b", 0, 0, 1, True), ("a", 0, 0, 3, False), ("b", 2, 0, 0, True)]
    assert outcomes_of_lookups(drafter) == []  # nothing of the last request is left


@pytest.mark.parametrize(
    ("committed", "told"),
    [
        ([[4], [5], [6]], [("a", 0, 0, 3, False)]),  # not verified at all
        ([[7], [4], [5, 6]], [("a", 0, 0, 0, True), ("a", 1, 1, 3, False)]),  # verified: one of three
        ([[7], [4], [9]], [("a", 0, 0, 0, True), ("a", 1, 1, 1, True)]),
        ([[7], [9], [9]], [("a", 0, 0, 0, True), ("a", 2, 0, 0, True)]),  # it failed where it was verified
    ],
)
def test_what_is_not_verified_of_a_lookup_is_watched(committed, told):
    drafter = HybridDrafter([lookup("a", 4, 5, 6)])
    assert outcomes_of_lookups(drafter, *committed, worths={"a": 1.0}, longest=1) == told
