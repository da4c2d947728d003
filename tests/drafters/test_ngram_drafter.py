"""Lookup: longest match, of those the latest, and never the end itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadout.core.noise import RandomSource
from leadout.core.values import History, Sampling
from leadout.drafters.base import DraftPrompt, DraftRequest
from leadout.drafters.ngram import NgramDrafter
from leadout.errors import InputError


def request(context, k, slot=0):
    return DraftRequest(
        slot=slot, context=context, k=k, sampling=Sampling(), history=History(), position=0, noise=None,
        source=RandomSource(None),
    )  # fmt: skip


def drafted(text, k, low=1, high=4):
    drafter = NgramDrafter(low, high)
    drafter.begin(0, DraftPrompt(ids=text))
    (proposal,) = drafter.propose([request(text, k)])
    assert proposal.rows is None
    return list(proposal.tokens)


def test_longest_match_beats_a_later_shorter_one():
    text = [1, 2, 3, 50, 9, 3, 60, 1, 2, 3]
    assert drafted(text, 1) == [50]
    assert drafted(text, 1, high=1) == [60]


def test_latest_of_equally_long_matches_is_taken():
    assert drafted([1, 2, 7, 1, 2, 8, 1, 2], 1) == [8]


def test_continuation_runs_on_periodically():
    assert drafted([5, 6, 7, 5, 6, 7], 8) == [5, 6, 7, 5, 6, 7, 5, 6]
    assert drafted([4, 4], 3) == [4, 4, 4]


def test_end_of_the_text_never_matches_itself():
    assert drafted([1, 2, 3], 4) == []
    assert drafted([1], 4) == []


def test_matches_shorter_than_min_match_do_not_count():
    assert drafted([1, 2, 9, 2], 2, low=2) == []


def test_no_token_is_proposed_when_none_is_wanted():
    assert drafted([4, 4, 4], 0) == []


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 6),
)
def test_proposal_equals_a_search_through_the_whole_text(text, low, more, k):
    assert drafted(text, k, low, low + more) == searched(text, k, low, low + more)


def searched(text, k, low, high):
    for size in range(high, low - 1, -1):
        for end in range(len(text) - 1, size - 1, -1):
            if text[end - size : end] == text[len(text) - size :]:
                out = list(text)
                for i in range(k):
                    out.append(out[end + i])
                return out[len(text) :]
    return []


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=8))
def test_index_built_in_pieces_equals_one_built_at_once(pieces):
    drafter, text = NgramDrafter(1, 3), list(pieces[0])
    drafter.begin(0, DraftPrompt(ids=pieces[0]))
    for piece in pieces[1:]:
        drafter.observe(0, piece)
        text += piece
    (proposal,) = drafter.propose([request(text, 4)])
    assert list(proposal.tokens) == drafted(text, 4, 1, 3)


def test_slots_know_nothing_of_each_other_and_nothing_is_left_after_the_end():
    drafter = NgramDrafter(1, 2)
    drafter.begin(0, DraftPrompt(ids=[1, 2, 1]))
    drafter.begin(1, DraftPrompt(ids=[3, 1]))
    both = drafter.propose([request([1, 2, 1], 1, 0), request([3, 1], 1, 1)])
    assert [proposal.tokens for proposal in both] == [(2,), ()]
    drafter.end(0)
    drafter.begin(0, DraftPrompt(ids=[1]))
    assert drafter.propose([request([1], 1)])[0].tokens == ()


@pytest.mark.parametrize(("low", "high"), [(0, 3), (4, 3)])
def test_lengths_out_of_range_are_refused(low, high):
    with pytest.raises(InputError, match=f"1 <= min_match <= max_match, got {low}, {high}"):
        NgramDrafter(low, high)


def test_lookup_is_never_blocked_and_closes_twice():
    drafter = NgramDrafter()
    drafter.begin(0, DraftPrompt(ids=[1, 2]))
    assert drafter.blocked(0) == ""
    drafter.close()
    drafter.close()
