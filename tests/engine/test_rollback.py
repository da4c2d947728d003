"""Targets whose state cannot be cut: replayed where there are snapshots, plain where there are none."""

from contextlib import closing
from dataclasses import replace

import pytest
from toys import GREEDY, engine, hashed, plain

from leadout.drafters.ngram import NgramDrafter
from leadout.engine.params import Params
from leadout.errors import RollbackError
from leadout.testing import ScriptedDrafter, TableModel


@pytest.mark.parametrize("params", [GREEDY, Params(temperature=0.8, seed=4)])
def test_state_with_snapshots_gives_plain_output_when_drafts_come_and_go(params):
    params = replace(params, max_tokens=64)
    expected = plain(hashed(7), [1, 2], params, 7)
    state = TableModel(hashed(7), n_vocab=7, rollback="replay")
    turns = iter(range(1000))

    def every_other_round(request):
        if next(turns) % 2:
            return []
        known = expected.ids[request.position : request.position + 4]
        return [*known[:2], *((token + 1) % 7 for token in known[2:])]

    result = engine(state, ScriptedDrafter(every_other_round), 4).generate([1, 2], params)

    assert result.ids == expected.ids
    assert result.usage.accepted > 10
    assert state.replayed > 0


def test_lookup_on_a_state_with_snapshots_equals_plain():
    params = replace(GREEDY, max_tokens=64)
    state = TableModel(hashed(5, spread=9.0), n_vocab=5, rollback="replay")
    result = engine(state, NgramDrafter(1, 3), 4).generate([1, 2], params)
    assert result.ids == plain(hashed(5, spread=9.0), [1, 2], params, 5).ids
    assert result.usage.drafted > 0


def test_state_without_snapshots_turns_speculation_off_and_says_so():
    state = TableModel(hashed(7), n_vocab=7, rollback="none")
    drafter = ScriptedDrafter.always(1)
    one = engine(state, drafter)
    result = one.generate([1, 2], replace(GREEDY, max_tokens=20))

    assert result.ids == plain(hashed(7), [1, 2], replace(GREEDY, max_tokens=20), 7).ids
    assert result.usage.drafted == 0
    assert one.speculation.reason == result.speculation.reason == "off: its state cannot roll back"
    assert not result.speculation.enabled
    assert drafter.asked == []


def test_state_without_snapshots_serves_a_turn_that_goes_on_and_one_that_does_not():
    state = TableModel(hashed(7), n_vocab=7, rollback="none")
    one = engine(state)
    params = replace(GREEDY, max_tokens=5)
    first = one.generate([1, 2], params)
    longer = [1, 2, *first.ids, 3]
    assert one.generate(longer, params).ids == plain(hashed(7), longer, params, 7).ids
    assert one.generate([1, 5, 6], params).ids == plain(hashed(7), [1, 5, 6], params, 7).ids
    assert one.generate([1, 5, 6], params).usage.cached_tokens == 0


class Unreliable(TableModel):
    """Says it can be cut, and cannot."""

    def truncate(self, slot, length):
        if 0 < length < self.length(slot):
            super().truncate(slot, 0)
            raise RollbackError("the cache would not go back")
        super().truncate(slot, length)


def test_cache_that_fails_to_go_back_is_read_anew_and_drafting_stops():
    params = replace(GREEDY, max_tokens=12)
    target = Unreliable(hashed(7), n_vocab=7)
    drafter = ScriptedDrafter.always(1)
    result = engine(target, drafter).generate([1, 2], params)
    assert result.ids == plain(hashed(7), [1, 2], params, 7).ids
    assert result.speculation.reason.startswith("off after ")
    assert result.speculation.reason.endswith("the cache would not go back")
    assert len(drafter.asked) == 1


@pytest.mark.parametrize("rollback", ["cut", "replay"])
@pytest.mark.parametrize("right", [0, 1, 2, 3])
def test_an_answer_that_ends_on_any_token_of_a_round_leaves_a_cache_that_serves_the_next(rollback, right):
    def make():
        return TableModel(hashed(8, 3), n_vocab=8, n_ctx=128, rollback=rollback)

    prompt = [1, 2, 3]
    answer = engine(make()).generate(prompt, replace(GREEDY, max_tokens=12)).ids
    for length in range(2, 12):
        stop = "".join(f" {token}" for token in answer[:length])
        params = replace(GREEDY, max_tokens=40, stop=(stop,))
        one = engine(make(), ScriptedDrafter.partly_right(answer, right, 8))
        ended = one.generate(prompt, params)
        assert ended.finish_reason == "stop"
        follow_up = [*prompt, *ended.ids, 5]
        again = one.generate(follow_up, replace(GREEDY, max_tokens=8, speculate=False))
        assert again.ids == engine(make()).generate(follow_up, replace(GREEDY, max_tokens=8)).ids


def test_an_error_in_whoever_reads_events_frees_the_engine():
    one = engine(TableModel(hashed(8, 3), n_vocab=8, n_ctx=64))

    def failing():
        with closing(one.stream([1, 2], replace(GREEDY, max_tokens=9))) as events:
            return [1 // 0 for _ in events]

    with pytest.raises(ZeroDivisionError):
        failing()
    assert one.generate([1, 2], replace(GREEDY, max_tokens=3)).usage.completion_tokens == 3
