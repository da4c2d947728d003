"""Verdicts from measurements, computed by hand."""

import subprocess
import sys

import pytest

from leadout.bench.record import Spread
from leadout.probe.answers import Drafting, fold_drafting, speed, speedup
from leadout.probe.equality import Equality
from leadout.probe.judge import judge
from leadout.probe.law import Law
from leadout.probe.measured import Measured
from leadout.probe.report import EXIT_CODES, Verdict
from leadout.probe.values import Counters, Inspection, Said

FINE = Drafting(basis="answers", n_tokens=100, drafted=80, accepted=50)
EQUAL = Equality(method="replay", n_compared=50)


def measured(**changes):
    values = {
        "inspection": Inspection(configured=True),
        "drafting": FINE,
        "equality": EQUAL,
        "law": Law(),
        "speedup": None,
        "advice": "read the log",
    }
    return Measured(**{**values, **changes})


def test_exit_codes_tell_every_verdict_apart():
    assert EXIT_CODES[Verdict.ON] == 0
    assert len(set(EXIT_CODES.values()) | {1, 2}) == len(Verdict) + 2


def test_acceptance_and_tokens_per_pass_count_as_everywhere_in_leadout():
    assert FINE.acceptance == pytest.approx(50 / 80)
    assert FINE.tokens_per_pass == pytest.approx(100 / 50)


def test_nothing_accepted_names_the_vocabulary():
    judged = judge(measured(drafting=Drafting(basis="answers", n_tokens=100, drafted=300, accepted=2)))
    assert (judged.verdict, judged.cause) == (Verdict.USELESS, "nothing-accepted")


def test_low_acceptance_is_a_warning_with_what_to_change():
    judged = judge(measured(drafting=Drafting(basis="answers", n_tokens=100, drafted=200, accepted=40)))
    assert judged.verdict is Verdict.ON
    finding = next(each for each in judged.findings if each.name == "low-acceptance")
    assert "--spec-draft-p-min" in finding.remedy
    assert "-ctkd" in finding.remedy


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (Spread(median=0.8, low=0.7, high=0.95, n=4), Verdict.USELESS),
        (Spread(median=0.9, low=0.7, high=1.05, n=4), Verdict.ON),
        (Spread(median=0.8, low=0.8, high=0.8, n=2), Verdict.ON),
        (Spread(median=1.8, low=1.2, high=2.0, n=4), Verdict.ON),
    ],
)
def test_slower_than_plain_is_useless_only_where_every_text_was(ratio, verdict):
    assert judge(measured(speedup=ratio)).verdict is verdict


def test_harm_outweighs_uselessness():
    slow = Spread(median=0.5, low=0.5, high=0.5, n=4)
    lossy = Equality(method="plain side", n_compared=0, splits=())
    assert judge(measured(speedup=slow, equality=lossy)).cause == "slower-than-plain"


def test_time_alone_proves_drafting_only_against_the_same_server():
    untold = Drafting(basis="", n_tokens=100, drafted=None, accepted=None)
    faster = Spread(median=1.5, low=1.2, high=1.7, n=4)
    values = {"drafting": untold, "inspection": Inspection(), "speedup": faster}
    assert judge(measured(**values, is_same_server=True)).verdict is Verdict.ON
    elsewhere = judge(measured(**values))
    assert (elsewhere.verdict, elsewhere.cause) == (Verdict.UNKNOWN, "not-told")
    assert "read the log" in elsewhere.explanation


def test_load_of_others_is_named_where_nothing_was_drafted():
    busy = Drafting(basis="counters", n_tokens=100, drafted=0, accepted=0, foreign=7)
    judged = judge(measured(drafting=busy))
    assert judged.cause == "nothing-drafted"
    assert "other requests kept it too busy" in judged.explanation


def test_unconfigured_server_without_drafts_is_off():
    nothing = Drafting(basis="counters", n_tokens=100, drafted=0, accepted=0)
    assert judge(measured(drafting=nothing, inspection=Inspection())).verdict is Verdict.OFF


def test_collapse_after_a_long_text_is_named():
    long = Drafting(basis="answers", n_tokens=50, drafted=100, accepted=5)
    names = {each.name for each in judge(measured(long_drafting=long)).findings}
    assert "draft-context" in names


def test_counter_that_was_reset_tells_nothing():
    change = Counters(tokens=5, drafted=3).since(Counters(tokens=100, drafted=1))
    assert (change.tokens, change.drafted) == (None, 2)
    assert Counters(drafted=3).since(Counters()).drafted == 3


def test_end_token_that_a_server_counts_is_nobody_elses():
    said = Said(text="x", n_tokens=10)
    drafting = fold_drafting([said], Counters(tokens=11), Counters(requests=1, tokens=10))
    assert drafting.foreign == 0
    busy = fold_drafting([said], Counters(tokens=60), Counters(requests=1, tokens=10))
    assert (busy.foreign, busy.foreign_unit) == (48, "tokens")


def test_speed_counts_tokens_after_the_first():
    said = Said(text="x", n_tokens=21, first_s=1.0, last_s=3.0)
    assert speed([said]).median == pytest.approx(10)
    assert speed([Said(text="x", n_tokens=2, first_s=1.0, last_s=3.0)]) is None
    assert speedup([]) is None


def test_command_line_does_not_wait_for_http_libraries():
    code = (
        "import sys, leadout.cli.probe, leadout.probe\n"
        "print({'httpx', 'prometheus_client'} & set(sys.modules))\n"
        "print(leadout.probe.probe_server, dir(leadout.probe))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("set()\n")
    assert "probe_server" in done.stdout
