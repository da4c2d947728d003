import numpy as np
import pytest

from leadout.proof.fit import fit_p_value

LAW = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


@pytest.mark.parametrize("n_draws", [40, 4000])
def test_p_values_of_true_draws_are_uniform(n_draws):
    random = np.random.default_rng(3)
    values = [fit_p_value(LAW, random.multinomial(n_draws, LAW), random, n_simulated=400) for _ in range(300)]
    assert 0.4 < np.mean(values) < 0.6
    assert np.mean(np.array(values) < 0.05) < 0.1


def test_draws_of_another_law_get_a_small_p_value():
    random = np.random.default_rng(4)
    other = np.array([0.4, 0.4, 0.15, 0.05, 0.0])
    assert fit_p_value(LAW, random.multinomial(4000, other), random) < 1e-3


def test_an_impossible_outcome_gives_zero():
    assert fit_p_value(LAW, np.array([50, 30, 15, 4, 1]), np.random.default_rng(5)) == 0.0
