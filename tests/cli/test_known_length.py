import pytest

from leadout.advise.known import Known
from leadout.cli.known_length import LONGEST, best_length, known_length
from leadout.core.cost import CostTable
from leadout.testing.tiny_gguf import write_tiny_gguf


def known(acceptance, draft_s=0.1, slope=0.0):
    widths = tuple((width, 1.0 + slope * (width - 1)) for width in (1, 2, 4, 8, 16, 32))
    return Known(costs=CostTable(widths=widths, draft_s=draft_s), acceptance=acceptance)


def test_free_passes_and_a_perfect_draft_take_the_longest():
    assert best_length(known(1.0, draft_s=1e-9)).k == LONGEST


def test_length_is_the_best_of_all_by_hand():
    # k = 1: 1.5 / 1.1 = 1.364; k = 2: 1.75 / 1.2 = 1.458; k = 3: 1.875 / 1.3 = 1.442
    found = best_length(known(0.5))
    assert found.k == 2
    assert "50% of drafted tokens stood, which predicts 1.46 times the plain speed" in found.why


@pytest.mark.parametrize("acceptance", [0.0, 0.05])
def test_useless_draft_is_as_short_as_can_be_and_says_so(acceptance):
    found = best_length(known(acceptance, draft_s=0.5, slope=0.5))
    assert found.k == 1
    assert "predicts 0.5" in found.why


def test_nothing_is_known_of_a_draft_that_was_never_judged(tmp_path):
    assert best_length(known(None)) is None
    assert best_length(known(0.5, draft_s=0.0)) is None
    path = write_tiny_gguf(tmp_path / "never-run.gguf")
    assert known_length(path, path) is None
    assert known_length(tmp_path, tmp_path) is None
