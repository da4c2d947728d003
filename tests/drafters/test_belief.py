"""How far lookups believe in what followed before."""

import pytest

from leadout.drafters.belief import belief
from leadout.drafters.ngram import NgramIndex


def test_one_occurrence_of_two_tokens_is_worth_a_coins_toss():
    assert belief(1, 1, 2) == pytest.approx(0.5)


def test_belief_grows_with_agreement_and_with_the_length_of_the_context():
    assert belief(1, 1, 2) < belief(1, 1, 8) < belief(1, 1, 64) < 1
    assert belief(1, 3, 4) < belief(2, 3, 4) < belief(3, 3, 4) < belief(30, 30, 4) < 1


def test_a_continuation_that_changed_of_late_is_believed_less():
    index = NgramIndex(2, 4)
    index.extend([1, 2, 3, 1, 2, 3, 1, 2, 4, 1, 2])
    match = index.match()
    assert (match.n_seen, match.n_same) == (3, 1)
    assert belief(match.n_same, match.n_seen, match.size) == pytest.approx(1 / (3 + 2 / 2))
