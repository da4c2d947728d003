import pytest

from leadout.core.constraint import ahead
from leadout.testing.rule_constraint import RuleConstraint


def walked(*, ends=(4,)):
    """Even ids after even ones, odd after odd; anything at first; over after an end."""

    def rule(tokens):
        return range(5) if not tokens else [each for each in range(5) if each % 2 == tokens[-1] % 2]

    return RuleConstraint(rule, n_vocab=5, ends=ends).begin()


def test_walk_allows_what_the_rule_allows_where_it_stands():
    with ahead(walked()) as walk:
        assert all(walk.allows(token) for token in range(5))
        walk.advance(1)
        assert [walk.allows(token) for token in (-1, 0, 1, 3, 5)] == [False, False, True, True, False]
        assert walk.mask().tolist() == [False, True, False, True, False]


def test_nothing_is_masked_or_allowed_once_it_is_over():
    with ahead(walked()) as walk:
        walk.advance(4)
        assert walk.is_over
        assert walk.mask() is None
        assert not walk.allows(2)


def test_walk_goes_on_behind_what_it_passed_and_never_beyond_the_end():
    state = walked()
    with ahead(state) as walk:
        walk.go_to([2])
        walk.go_to([2, 4, 0, 0])
        assert state.tokens == [2, 4]
    assert state.tokens == []


def test_state_stands_where_it_stood_whatever_happens():
    state = walked()
    state.advance(0)

    def fail():
        with ahead(state) as walk:
            walk.go_to([0, 2])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert state.tokens == [0]


def test_walk_that_went_nowhere_takes_nothing_back():
    state = walked()
    state.advance(0)
    with ahead(state) as walk:
        walk.go_back()
    assert state.tokens == [0]
