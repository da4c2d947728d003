"""Exact mode keeps verify passes to the widths that the model says are exact."""

from dataclasses import replace

import pytest
from toys import GREEDY, engine, hashed, plain

from leadout.engine.engine import Engine
from leadout.engine.schedule import StepSchedule
from leadout.testing import ScriptedDrafter, TableModel, saying


@pytest.mark.parametrize("k", range(9))
@pytest.mark.parametrize("widths", [{1, 2, 3, 4, 8}, {1, 4}, {1, 2}])
@pytest.mark.parametrize("said", [9, 1, 2])
def test_widths_of_verify_passes_are_exact_ones(k, widths, said):
    params = replace(GREEDY, max_tokens=30)
    answer = plain(hashed(8), [1, 2], params, 8).ids
    model = TableModel(hashed(8), n_vocab=8, widths=widths)
    short = ScriptedDrafter(lambda r: answer[r.position : r.position + min(r.k, said)])
    result = engine(model, short, k, exact=True).generate([1, 2], params)

    assert result.ids == answer
    used = {len(fed.tokens) for (fed,) in model.passes[1:]}
    assert used <= widths
    if said == 9:
        assert max(used) == max(width for width in widths if width <= k + 1)


def test_without_an_exact_width_but_one_speculation_is_off_and_says_so():
    model = TableModel(hashed(8), n_vocab=8, widths={1})
    result = engine(model, ScriptedDrafter.always(1), exact=True).generate([1], replace(GREEDY, max_tokens=5))
    assert result.usage.drafted == 0
    assert result.speculation.reason == "off: in exact mode, as only passes of one token are exact with table"


def test_without_an_exact_width_within_k_speculation_is_off_at_load_and_in_results():
    drafter = ScriptedDrafter.always(1)
    made = engine(TableModel(hashed(8), n_vocab=8, widths={1, 8, 12}), drafter, 4, exact=True)
    result = made.generate([1], replace(GREEDY, max_tokens=5))
    reason = "off: in exact mode, as k is 4 and table is exact at these widths (k + 1) alone: 1, 8, 12"
    for speculation in (made.speculation, result.speculation):
        assert (speculation.enabled, speculation.reason) == (False, reason)
    assert drafter.asked == []
    assert engine(TableModel(hashed(8), n_vocab=8, widths={1, 8}), drafter, 7, exact=True).speculation.enabled


def test_schedule_that_steps_below_every_exact_width_is_told_from_there_on():
    drafter = ScriptedDrafter(lambda request: [0] * request.k)
    model = TableModel(saying(lambda _: 1, 8), n_vocab=8, widths={1, 4})
    made = Engine(model, drafter, schedule=StepSchedule(3, 1, 8), exact=True)
    result = made.generate([1], replace(GREEDY, max_tokens=9))
    assert made.speculation.enabled
    assert result.ids == (1,) * 9
    assert [k for _, _, k in drafter.asked] == [3]
    assert result.speculation.reason == (
        "off after 2 tokens: in exact mode, as k is 2 and table is exact at these widths (k + 1) alone: 1, 4"
    )


def test_slots_never_share_a_pass_with_or_without_drafts():
    for drafter in (None, ScriptedDrafter.always(1)):
        model = TableModel(hashed(8), n_vocab=8, n_slots=2, widths={1, 2})
        Engine(model, drafter, exact=True).generate_many([1, 2], replace(GREEDY, max_tokens=5, n=2))
        assert {len(fed) for fed in model.passes} == {1}


@pytest.mark.parametrize(("most", "is_on"), [(2, False), (3, True), (None, True)])
def test_a_request_that_allows_drafts_below_every_exact_width_alone_is_told(most, is_on):
    made = engine(TableModel(hashed(8), n_vocab=8, widths={1, 4}), ScriptedDrafter.always(1), 5, exact=True)
    result = made.generate([1], replace(GREEDY, max_tokens=5, max_draft=most))
    assert result.speculation.enabled is is_on
    if not is_on:
        assert "off: in exact mode, as k is 2 and table is exact at these" in result.speculation.reason
