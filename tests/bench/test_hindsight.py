"""Seconds of fixed choices and of the oracle, on answers that can be worked out by hand."""

from dataclasses import replace

import pytest

from leadout.bench.hindsight import (
    AnswerFacts,
    Guess,
    fixed_draft_s,
    fixed_lookup_s,
    look_back,
    oracle_s,
    plain_s_of,
)
from leadout.core.cost import CostTable

COSTS = CostTable(widths=((1, 10.0), (2, 12.0), (3, 14.0), (4, 16.0), (5, 18.0)), draft_s=2.0, read_s=1.0)
"""A pass of w tokens takes 8 + 2w, a draft pass 2, a token that is read with it 1."""


def drafted(text, **more):
    """Agreements as "101"; the first token is drafted by nobody."""
    agrees = tuple(each == "1" for each in text)
    return AnswerFacts(n_tokens=len(text), agrees=agrees, confidences=(0.5,) * len(text), **more)


def looked_up(*guesses):
    found = tuple(Guess(proposed=proposed, matched=matched) for proposed, matched in guesses)
    return AnswerFacts(n_tokens=len(found), lookups={"ngram": found})


def test_plain_decoding_takes_a_pass_for_every_token_but_the_first():
    assert plain_s_of(AnswerFacts(n_tokens=6), COSTS) == 50.0
    assert plain_s_of(AnswerFacts(n_tokens=1), COSTS) == 0.0
    assert plain_s_of(AnswerFacts(n_tokens=0), COSTS) == 0.0


def test_fixed_draft_pays_for_every_pass_and_for_what_it_reads():
    # tokens 1, 2 right, then the bonus 3; the next round has room for one draft, which is wrong; 5 is plain
    facts = drafted("011010", n_to_read=7)
    first = (2 * 2.0 + 7 * 1.0) + 14.0  # two passes, the first of which reads the prompt; a pass of three
    second = (1 * 2.0 + 1 * 1.0) + 12.0  # the last accepted token was never fed
    assert facts.run_from(4) == 1
    assert fixed_draft_s(facts, COSTS, k=2) == first + second
    wrong = drafted("011000", n_to_read=7)
    assert fixed_draft_s(wrong, COSTS, k=2) == first + second + 10.0


def test_perfect_draft_of_one_token_halves_the_passes():
    facts = drafted("01111")
    # two tokens a round; from the second round on two are unread
    assert fixed_draft_s(facts, COSTS, k=1) == (2.0 + 12.0) + (2.0 + 1.0 + 12.0)


def test_fixed_lookup_verifies_all_it_proposes():
    facts = looked_up((0, 0), (4, 2), (0, 0), (0, 0), (3, 0), (0, 0), (0, 0))
    # at token 1 four are verified and two right; at token 4 two have room and none is right
    assert fixed_lookup_s(facts, COSTS, lookup="ngram", k=8) == 18.0 + 14.0 + 10.0 + 10.0
    # with k = 1: one right at token 1, so token 3 is next (plain), then a wrong one at 4
    assert fixed_lookup_s(facts, COSTS, lookup="ngram", k=1) == 12.0 + 10.0 + 12.0 + 10.0 + 10.0


def test_oracle_verifies_only_what_comes_true():
    facts = looked_up((0, 0), (4, 2), (0, 0), (0, 0), (3, 0), (0, 0), (0, 0))
    assert oracle_s(facts, COSTS) == 14.0 + 3 * 10.0


def test_oracle_drafts_where_that_pays_and_goes_on_after_a_run():
    assert oracle_s(drafted("01111"), COSTS) == 3 * 2.0 + 16.0  # three drafts and the bonus: all in one round
    dear = CostTable(widths=COSTS.widths, draft_s=20.0)
    assert oracle_s(drafted("01111"), dear) == plain_s_of(drafted("01111"), dear)
    both = AnswerFacts(
        n_tokens=5,
        agrees=(False, False, False, True, True),
        lookups={"ngram": (Guess(), Guess(proposed=2, matched=2), Guess(), Guess(), Guess())},
    )
    assert oracle_s(both, COSTS) == 1 * 2.0 + 16.0  # a run of two, one draft after it, the bonus


def test_oracle_reads_the_prompt_only_if_it_drafts():
    assert oracle_s(drafted("01111", n_to_read=5), COSTS) == 5.0 + 22.0
    assert oracle_s(drafted("01111", n_to_read=1000), COSTS) == 40.0


def test_oracle_sees_through_costs_that_jump():
    jump = CostTable(widths=((1, 10.0), (2, 11.0), (3, 90.0), (4, 12.0), (5, 90.0)), draft_s=0.5)
    assert oracle_s(drafted("011110"), jump) == pytest.approx(3 * 0.5 + 12.0 + 10.0)
    assert oracle_s(drafted("01110"), jump) == pytest.approx(3 * 0.5 + 12.0)


def test_no_choice_beats_the_oracle_and_the_best_fixed_one_is_found():
    answers = [drafted("0111101111"), drafted("0110110110", n_to_read=3)]
    seen = look_back(answers, COSTS)
    assert seen.best_fixed == max(seen.fixed, key=seen.fixed.get)
    assert seen.fixed["plain"] == 1.0
    assert 1.0 < seen.best < seen.oracle
    by_hand = 180.0 / sum(fixed_draft_s(each, COSTS, k=2) for each in answers)
    assert seen.fixed["draft k=2"] == by_hand


def test_drafts_are_dearer_behind_a_long_prompt():
    costs = replace(COSTS, attention_s=0.01)
    short, long = (look_back([drafted("0111101111", n_prompt=n)], costs) for n in (0, 1000))
    assert short.oracle > long.oracle
    assert short.fixed["draft k=4"] > long.fixed["draft k=4"]


def test_nothing_to_decode_is_no_workload():
    assert look_back([AnswerFacts(n_tokens=1)], COSTS) is None
    assert look_back([], COSTS) is None
