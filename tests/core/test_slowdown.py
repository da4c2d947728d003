"""How busy a machine was."""

import pytest

from leadout.core.slowdown import DISTURBED, disturbance, not_kept, slowdown


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        ([0.01, 0.04, 0.05, 0.04], 4.0),
        ([0.01, 0.01, 0.01, 0.5], 1.0),
        ([0.01, 0.04, 0.04], 1.0),
        ([0.001, 0.004, 0.005, 0.004], 1.0),
        ([], 1.0),
    ],
    ids=["busy", "one bad moment", "too few", "too short", "none"],
)
def test_slowdown_is_the_usual_time_in_fastest_ones(seconds, times):
    assert slowdown(seconds) == pytest.approx(times)


def test_only_what_no_idle_machine_has_is_told():
    assert not disturbance(DISTURBED - 0.01)
    assert "passes took 3.2 times as long as the fastest" in disturbance(3.21)
    assert not not_kept(DISTURBED - 0.01, "check")
    assert not_kept(3.21, "check") == (
        f"{disturbance(3.21)}; this is not kept, check again when the machine is idle"
    )
