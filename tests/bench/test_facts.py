"""What drafters would have said, on models whose answers are known."""

import pytest
from talk import talker

from leadout.bench.costs import DRAFT_K, LONG_WIDTHS, MeasuredCosts
from leadout.bench.facts import facts_of_unit
from leadout.bench.remembering import measure_memory
from leadout.bench.widths import WIDTHS
from leadout.bench.workloads import Unit
from leadout.drafters.suffix_index import BYTES_PER_TOKEN


def said_by(talker_shift, after, n):
    """What `talker(shift)` says after a letter."""
    said = [after]
    for _ in range(n):
        said.append(97 + (said[-1] + talker_shift) % 26)
    return bytes(said[1:])


def unit(*calls):
    return Unit(workload="chat", name="a", calls=tuple(tuple(call) for call in calls), max_tokens=9)


def test_agreement_is_the_best_guess_after_all_before_it():
    draft = talker(2)
    answer = said_by(2, ord("a"), 3)
    [facts] = facts_of_unit(unit(b"..a"), [answer + b"!"], draft)
    assert facts.agrees == (True, True, True, False)
    assert all(each == pytest.approx(facts.confidences[0]) for each in facts.confidences)
    assert 0 < facts.confidences[0] < 1
    assert (facts.n_tokens, facts.n_to_read) == (4, 3)
    assert draft.length(0) == 0


def test_long_answers_are_compared_piece_by_piece():
    answer = said_by(1, ord("a"), 40)
    [facts] = facts_of_unit(unit(b"a"), [answer], talker())
    assert facts.agrees == (True,) * 40


def test_draft_reads_only_what_is_new_in_a_later_call():
    first, second = facts_of_unit(unit(b"hello", b"helloijk! more"), [b"pqr", b"fg"], talker())
    assert first.n_to_read == 5
    assert second.n_to_read == len(b"ijk! more")


def test_beyond_the_context_of_the_draft_nothing_agrees():
    [facts] = facts_of_unit(unit(b"aaaaaaa"), [said_by(1, ord("a"), 6)], talker(n_ctx=10))
    assert facts.agrees == (True, True, True, True, False, False)
    assert len(facts.confidences) == 6


def test_a_prompt_beyond_the_context_of_the_draft_is_not_read():
    said = said_by(1, ord("a"), 3)
    long, short = facts_of_unit(unit(b"a" * 11, b"aa"), [said, said], talker(n_ctx=10))
    assert (long.agrees, long.confidences, long.n_to_read) == ((False,) * 3, (0.0,) * 3, 0)
    assert (short.agrees, short.n_to_read) == ((True,) * 3, 2)


def test_lookups_see_what_stands_before_and_nothing_else():
    [facts] = facts_of_unit(unit(b"abcd1 abcd2 "), [b"abcd1!"], None)
    assert facts.agrees == ()
    ngram = facts.lookups["ngram"]
    assert len(ngram) == 6
    assert ngram[0].proposed == 0  # the first token comes with the prompt
    assert ngram[2].matched == 2  # after "ab" comes "cd", and then "2" where the answer has "1"
    assert ngram[2].proposed > 2
    assert len(ngram[2].confidences) == ngram[2].proposed


def test_suffixes_remember_the_answers_before():
    _, second = facts_of_unit(unit(b"one: ", b"two: "), [b"wxyzwvut", b"wxyzwvut"], None)
    assert second.lookups["suffix"][3].matched >= 3
    alone = facts_of_unit(unit(b"two: "), [b"wxyzwvut"], None)[0]
    assert alone.lookups["suffix"][3].matched == 0


def test_empty_answer_has_facts():
    [facts] = facts_of_unit(unit(b"abc"), [b""], talker())
    assert (facts.n_tokens, facts.agrees) == (0, ())


def test_facts_are_short_in_json():
    [facts] = facts_of_unit(unit(b"abab"), [b"!" + said_by(1, ord("!"), 1)], talker())
    assert facts.to_json()["agrees"] == "01"
    assert facts.to_json()["lookups"]["ngram"].startswith("0/0 ")


def test_every_width_and_the_draft_are_timed_as_often_as_asked():
    costs, target, draft = MeasuredCosts(), talker(), talker(2)
    costs.measure(target, draft, length=20, repeats=2)
    costs.measure(target, draft, length=20, repeats=1)
    assert {width: len(seconds) for width, seconds in costs.verify_s.items()} == dict.fromkeys(WIDTHS, 3)
    assert len(costs.draft_s) == len(costs.read_s) == 3
    table = costs.table(fixed_s=0.25)
    assert [width for width, _ in table.widths] == list(WIDTHS)
    assert table.fixed_s == 0.25
    assert table.draft_s > 0
    assert target.length(0) == draft.length(0) == 0
    single = [fed for step in draft.passes for fed in step if len(fed.tokens) == 1]
    assert len(single) >= 3 * DRAFT_K
    assert {width: len(seconds) for width, seconds in costs.long_s.items()} == dict.fromkeys(LONG_WIDTHS, 3)
    known = {"verify_ms_by_width", "long_verify_ms_by_width", "draft_ms", "read_ms"}
    assert set(costs.to_json()) == known


def test_costs_tell_what_attention_costs_apart():
    costs = MeasuredCosts()
    costs.verify_s = {1: [0.5 + 1e-4 * 256], 4: [0.8 + 4e-4 * 256]}
    costs.long_s = {1: [0.5 + 1e-4 * 1024], 4: [0.8 + 4e-4 * 1024]}
    table = costs.table(0.0)
    assert table.attention_s == pytest.approx(1e-4)
    assert table.verify_s(4) == pytest.approx(0.8)
    assert table.behind(2000).verify_s(1) == pytest.approx(0.7)


@pytest.mark.parametrize("n_ctx", [8, 40, 64])
def test_a_draft_with_little_room_is_timed_too(n_ctx):
    costs = MeasuredCosts()
    costs.measure(talker(), talker(2, n_ctx=n_ctx), repeats=1)
    assert costs.table(0.0).draft_s > 0


def test_costs_without_a_draft_have_none():
    costs = MeasuredCosts()
    costs.measure(talker(n_ctx=64), None, repeats=1)
    assert costs.to_json()["draft_ms"] is None
    assert costs.table(0.0).draft_s == 0.0


def test_memory_of_answers_is_bounded_and_as_large_as_is_said():
    found = measure_memory(8192, answer=256)
    assert found.n_bytes_after_twice <= 1.05 * found.n_bytes
    assert found.bytes_per_token == pytest.approx(BYTES_PER_TOKEN, rel=0.25)
