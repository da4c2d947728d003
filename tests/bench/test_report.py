"""Figures from answers whose times are given."""

import pytest
from rich.console import Console
from talk import answer, events, one_round, taken

from leadout.bench.answer import Answer
from leadout.bench.record import Spread
from leadout.bench.report import draft_ms_per_token, raw_answers, summarise, verify_ms_by_width
from leadout.bench.runner import Run
from leadout.bench.table import figures_table, widths_table

TEN = range(11)  # the first token, and ten more


def figures(*answers, plains=("plain",), workload="chat"):
    return summarise(Run(answers=answers), plains)[workload]


def test_answer_is_a_fold_over_events():
    rounds = [
        one_round(verify_s=9.0, draft_s=9.0),  # reads the prompt; counted in Started alone
        one_round(3, 2, verify_s=2.0, draft_s=0.5, other_s=0.25),
        one_round(1, 0, verify_s=1.0, draft_s=0.125),
    ]
    folded = Answer.of(events([5, 6, 7, 8, 9], rounds, first_s=4.0))
    assert folded.ids == (5, 6, 7, 8, 9)
    assert (folded.first_s, folded.decode_s) == (4.0, 3.875)
    assert (folded.passes, folded.drafted, folded.accepted, folded.decoded) == (3, 4, 2, 4)
    assert folded.reason == "on: draft x, fixed k=2"
    assert folded.to_json()["rounds"] == "0/0 3/2 1/0"


def test_answer_needs_a_beginning():
    with pytest.raises(ValueError, match="the events have no Started"):
        Answer.of([])


def test_speedup_is_the_ratio_of_seconds_for_the_same_ids():
    found = figures(taken("plain", answer(TEN, 4.0)), taken("fast", answer(TEN, 2.5)))
    assert found["fast"].speedup == Spread(median=1.6, low=1.6, high=1.6, n=1)
    assert found["plain"].speedup == Spread(median=1.0, low=1.0, high=1.0, n=1)
    assert found["fast"].n_same == 1


def test_prompt_counts_in_the_whole_ratio_only():
    found = figures(
        taken("plain", answer(TEN, 4.0, first_s=6.0)), taken("fast", answer(TEN, 2.0, first_s=8.0))
    )
    assert found["fast"].speedup.median == 2.0
    assert found["fast"].speedup_whole.median == 1.0


def test_other_texts_are_compared_per_token():
    found = figures(taken("plain", answer(TEN, 5.0)), taken("other", answer(range(1, 22), 5.0)))
    assert found["other"].speedup.median == 2.0
    assert (found["other"].n_same, found["other"].n_answers) == (0, 1)


def test_tokens_that_came_with_the_prompt_are_not_decoded_ones():
    found = figures(
        taken("plain", answer(TEN, 10.0, first_s=1.0)), taken("eager", answer(TEN, 3.0, n_first=5))
    )
    assert found["eager"].speedup.median == 2.0  # six tokens: 6 s by plain decoding
    assert found["eager"].speedup_whole.median == 11.0 / 4.0


def test_ratios_are_paired_and_their_median_is_taken():
    answers = []
    for unit, plain_s, fast_s in (("a", 1.0, 1.0), ("b", 10.0, 5.0), ("c", 100.0, 10.0)):
        answers += [
            taken("plain", answer(TEN, plain_s), unit=unit),
            taken("fast", answer(TEN, fast_s), unit=unit),
        ]
    assert figures(*answers)["fast"].speedup == Spread(median=2.0, low=1.0, high=10.0, n=3)


def test_repeats_are_paired_with_their_own_plain():
    answers = []
    for repeat, slow_machine in enumerate((1.0, 7.0)):
        answers += [taken("plain", answer(TEN, 2 * slow_machine), repeat=repeat),
                    taken("fast", answer(TEN, slow_machine), repeat=repeat)]  # fmt: skip
    assert figures(*answers)["fast"].speedup == Spread(median=2.0, low=2.0, high=2.0, n=2)


def test_calls_of_a_loop_are_added_up_into_one_ratio():
    answers = []
    for call, (plain_s, fast_s) in enumerate(((9.0, 1.0), (1.0, 4.0))):
        answers += [taken("plain", answer(TEN, plain_s), workload="agent", call=call),
                    taken("fast", answer(TEN, fast_s), workload="agent", call=call)]  # fmt: skip
    assert figures(*answers, workload="agent")["fast"].speedup == Spread(median=2.0, low=2.0, high=2.0, n=1)


def test_answer_too_short_to_time_gives_no_ratio():
    found = figures(taken("plain", answer([7], 0.0)), taken("fast", answer([7], 0.0)))
    assert found["fast"].speedup is found["fast"].tokens_per_s is None
    assert found["fast"].n_same == 1


def test_contender_whose_plain_partner_is_missing_gives_no_ratio():
    found = figures(taken("plain", answer(TEN, 1.0), unit="a"), taken("fast", answer(TEN, 1.0), unit="b"))
    assert found["fast"].speedup is None


def test_best_plain_is_the_faster_of_several():
    found = figures(
        taken("plain", answer(TEN, 4.0)),
        taken("plain@llama", answer(TEN, 3.0)),
        taken("fast", answer(TEN, 2.0)),
        plains=("plain", "plain@llama"),
    )  # fmt: skip
    assert found["fast"].speedup.median == 2.0
    assert found["fast"].speedup_best_plain.median == 1.5
    assert list(found) == ["plain", "plain@llama", "fast"]


def test_counts_are_summed_over_answers():
    rounds = [one_round(), one_round(4, 2, draft_s=0.5), one_round(2, 1, draft_s=0.5)]
    both = [Answer.of(events(range(6), rounds)), Answer.of(events(range(3), rounds[:2]))]
    found = figures(taken("x", both[0]), taken("x", both[1], unit="b"))["x"]
    assert found.acceptance == 5 / 10
    assert found.tokens_per_pass == 9 / 5
    assert (found.draft_s, found.verify_s, found.other_s) == (1.5, 3.0, 0.0)
    assert found.reasons == {"on: draft x, fixed k=2": 2}


def test_unknown_counts_stay_unknown():
    found = figures(taken("peer", answer(TEN, 1.0)))["peer"]
    assert found.acceptance is found.tokens_per_pass is None


def test_verify_cost_by_width_leaves_the_prompt_out():
    rounds = [one_round(verify_s=50.0), one_round(verify_s=0.060),
              one_round(3, 1, verify_s=0.100, draft_s=0.09),
              one_round(3, 3, verify_s=0.120, draft_s=0.03)]  # fmt: skip
    done = Run(answers=(taken("x", Answer.of(events(TEN, rounds))),))
    assert verify_ms_by_width(done) == {"x": {1: Spread.of([60.0]), 4: Spread.of([100.0, 120.0])}}
    assert draft_ms_per_token(done)["x"].median == pytest.approx(20.0)


def test_raw_answers_say_where_texts_part():
    answers = [taken("plain", answer([1, 2, 3], 1.0)), taken("x", answer([1, 2, 9], 1.0)),
               taken("y", answer([1, 2], 1.0)), taken("z", answer([1, 2, 3], 2.0))]  # fmt: skip
    rows = {row["contender"]: row for row in raw_answers(Run(answers=tuple(answers)), "plain")}
    assert [rows[name]["differs_at"] for name in "xyz"] == [2, 2, None]
    assert [rows[name]["same_as_plain"] for name in "xyz"] == [False, False, True]
    assert rows["z"]["ids_sha256"] == rows["plain"]["ids_sha256"] != rows["x"]["ids_sha256"]


def test_tables_show_medians_ranges_and_what_is_not_known():
    found = summarise(Run(answers=(
        taken("plain", answer(TEN, 4.0)), taken("plain", answer(TEN, 2.0), unit="b"),
        taken("peer", answer(TEN, 2.0)), taken("peer", answer(TEN, 4.0), unit="b"))), ["plain"])  # fmt: skip
    console = Console(width=200)
    with console.capture() as shown:
        console.print(figures_table(found))
        console.print(widths_table({"plain": {1: Spread.of([60.0])}, "x": {4: Spread.of([100.0])}}))
    lines = shown.get().splitlines()
    [row] = [line.split() for line in lines if "peer" in line]
    assert row == ["peer", "1.25", "(0.50..2.00)", row[3], row[4], row[5], "-", "-", "2/2"]
    assert "over best plain" not in shown.get()
    assert [line.split() for line in lines if line.startswith("x")] == [["x", "-", "100"]]
