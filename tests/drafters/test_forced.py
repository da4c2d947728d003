"""Drafts that a constraint gives for free, and what lookups get the credit for beside them."""

import pytest

from leadout.core.noise import RandomSource
from leadout.core.values import History, Proposal, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.forced import credited, forced, held_to
from leadout.drafters.hybrid import HybridDrafter
from leadout.drafters.ngram import NgramDrafter
from leadout.testing import RuleConstraint

V = 8


def fixed_then_free(tokens):
    """0 1 2, then anything but 7, four times; then it is over."""
    if len(tokens) < 3:
        return [len(tokens)]
    return range(7) if len(tokens) < 7 else []


def request(context, *, committed=(), k=6, rule=fixed_then_free):
    state = RuleConstraint(rule, n_vocab=V).begin()
    for token in committed:
        state.advance(token)
    return DraftRequest(
        slot=0, context=[*context, *committed], k=k, sampling=Sampling(), history=History(),
        position=len(committed), noise=None, source=RandomSource(None), constraint=state,
    )  # fmt: skip


@pytest.mark.parametrize(("k", "tokens"), [(1, (0,)), (3, (0, 1, 2)), (6, (0, 1, 2))])
def test_what_must_come_next_is_proposed_with_certainty(k, tokens):
    proposal = forced(request([5], k=k))
    assert (proposal.tokens, proposal.drafter, proposal.confidences) == (
        tokens,
        "forced",
        (1.0,) * len(tokens),
    )


def test_nothing_is_forced_where_anything_may_come_or_it_is_over():
    assert forced(request([5], committed=(0, 1, 2))).tokens == ()
    assert forced(request([5], committed=(0, 1, 2, 3, 3, 3, 3))).tokens == ()


def test_a_lookup_is_cut_before_what_is_not_allowed():
    proposal = Proposal(tokens=(0, 1, 2, 3, 7, 3), drafter="ngram", confidences=(0.5,) * 6)
    asked = request([5])
    assert held_to(asked, proposal).tokens == (0, 1, 2, 3)
    assert asked.constraint.tokens == []


def test_tokens_that_are_sure_anyway_are_not_the_merit_of_a_lookup():
    sure = Proposal(tokens=(0, 1), drafter="forced", confidences=(1.0, 1.0))
    found = Proposal(tokens=(0, 1, 4), drafter="ngram", confidences=(0.5, 0.4, 0.3))
    proposal = credited(found, sure)
    assert [proposal.drafter_of(at) for at in range(3)] == ["forced", "forced", "ngram"]
    assert (proposal.source, proposal.confidences) == ("forced+ngram", (1.0, 1.0, 0.3))
    for other in (Proposal(tokens=(0, 4, 4)), Proposal(tokens=(0, 1)), Proposal()):
        assert credited(other, sure) is other
    assert credited(found, Proposal()) is found


def test_a_lookup_that_goes_on_behind_what_is_forced_is_taken_whole():
    drafter = HybridDrafter([NgramDrafter(1, 2)])
    context = [5, 0, 1, 2, 6, 6, 4, 5]
    drafter.begin(0, DraftPrompt(ids=context))
    (proposal,) = drafter.propose([request(context)])
    assert (proposal.tokens, proposal.source) == ((0, 1, 2, 6, 6, 4), "forced+ngram")
    assert proposal.n_given == 3
