from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from leadout.core.noise import Noise, RandomSource
from leadout.core.values import Distribution
from leadout.errors import InputError

N = 100_000
IDS = np.arange(N)

GUMBEL_42 = [0.4246443482137345, 0.09184779695655386, -0.028069977921030737, 0.20629471137874256]
DRAWS_42 = [3, 2, 1, 2, 0, 3, 2, 1, 2, 1, 3, 3, 1, 3, 3, 1, 3, 1, 1, 3, 3, 2, 1, 1]
DRAWS_42_STREAM_1 = [3, 2, 2, 3, 1, 1, 2, 3, 3, 0, 2, 2, 2, 1, 3, 2, 2, 1, 3, 3, 3, 1, 1, 3]
DRAWS_MAX = [1, 3, 3, 3, 2, 2, 2, 3, 2, 1, 3, 3, 1, 3, 2, 3, 1, 1, 2, 2, 3, 3, 2, 1]


class Uniforms:
    """A generator that gives these numbers, in order."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = list(numbers)

    def random(self) -> float:
        return self._numbers.pop(0)


def distribution(*probs: float) -> Distribution:
    kept = [i for i, p in enumerate(probs) if p]
    return Distribution(ids=np.array(kept, dtype=np.int64), probs=np.array([probs[i] for i in kept]))


def uniforms(noise: Noise, position: int, ids=IDS) -> np.ndarray:
    return np.exp(-np.exp(-noise.gumbel(position, ids)))


def splitmix64(key: int, word: int) -> int:
    """Published algorithm, in whole numbers."""
    z = (key + 0x9E3779B97F4A7C15 * (word + 1)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_chance_never_accepts_at_zero_and_always_at_one():
    source = RandomSource(Uniforms(0.0, math.nextafter(1.0, 0.0), 0.5, 0.5))
    assert [source.accepts(p) for p in (0.0, 1.0, 0.5, math.nextafter(0.5, 1.0))] == [
        False,
        True,
        False,
        True,
    ]


def test_draws_at_the_edges_stay_in_the_support():
    almost_one = math.nextafter(1.0, 0.0)
    p = distribution(0, 0.25, 0.25, 0, 0.5, 0)
    source = RandomSource(Uniforms(0.0, 0.25, 0.5, almost_one))
    assert [source.draw(p) for _ in range(4)] == [1, 2, 4, 4]
    tiny = Distribution(ids=np.array([3, 8]), probs=np.array([5e-324, 5e-324]))  # the product rounds up
    assert RandomSource(Uniforms(almost_one)).draw(tiny) == 8


def test_draws_of_a_source_follow_the_distribution():
    p = distribution(0.4, 0.0, 0.3, 0.2, 0.1)
    source = RandomSource(np.random.default_rng(11))
    counts = np.bincount([source.draw(p) for _ in range(20_000)], minlength=5)
    assert counts[1] == 0
    assert stats.chisquare(counts[p.ids], 20_000 * p.probs).pvalue > 0.001


def test_two_sources_with_the_same_seed_agree():
    p = distribution(0.4, 0.3, 0.3)
    one, other = (RandomSource(np.random.default_rng(5)) for _ in range(2))
    assert [one.draw(p) for _ in range(50)] == [other.draw(p) for _ in range(50)]


def test_noise_is_gumbel():
    assert stats.kstest(Noise(1).gumbel(0, IDS), "gumbel_r").pvalue > 0.001
    along_positions = [float(Noise(1).gumbel(position, np.array([77]))[0]) for position in range(5000)]
    assert stats.kstest(along_positions, "gumbel_r").pvalue > 0.001


@pytest.mark.parametrize(
    ("other", "ids"),
    [
        ((7, 0, 1), IDS),  # next position
        ((7, 1, 0), IDS),  # next stream
        ((8, 0, 0), IDS),  # next seed
        ((7, 0, 0), IDS + 1),  # next id
        ((7, 0, 0), IDS + N),
        ((0, 7, 0), IDS),  # seed and stream exchanged
        ((7 + 2**32, 0, 0), IDS),
    ],
)
def test_noise_of_neighbouring_keys_is_independent(other, ids):
    seed, stream, position = other
    one, two = uniforms(Noise(7), 0), uniforms(Noise(seed, stream), position, ids)
    cells = np.histogram2d(one, two, bins=16, range=((0, 1), (0, 1)))[0]
    assert stats.chisquare(cells.ravel()).pvalue > 0.001
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / math.sqrt(N)


def test_noise_does_not_depend_on_what_else_is_asked():
    noise = Noise(3)
    whole = noise.gumbel(5, IDS)
    noise.gumbel(6, IDS[:10])
    assert np.array_equal(noise.gumbel(5, IDS[::-7]), whole[::-7])


def test_noise_is_the_published_hash_chained_over_seed_stream_position_and_id():
    assert [splitmix64(1234567, word) for word in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    for seed, stream, position, token in [
        (0, 0, 0, 0),
        (42, 3, 17, 151_935),
        (2**64 - 1, 2**64 - 1, 10**6, 5),
    ]:
        key = splitmix64(splitmix64(splitmix64(0, seed), stream), position)
        uniform = (splitmix64(key, token) >> 11) * 2.0**-53
        value = Noise(seed, stream).gumbel(position, np.array([token]))[0]
        assert value == pytest.approx(-math.log(-math.log(uniform)), rel=1e-13)


def test_draws_follow_the_distribution():
    p = distribution(0.45, 0.0, 0.3, 0.2, 0.049, 0.001)
    noise = Noise(2024)
    counts = np.bincount([noise.draw(p, position) for position in range(20_000)], minlength=6)
    assert counts[1] == 0
    assert stats.chisquare(counts[p.ids], 20_000 * p.probs).pvalue > 0.001


def test_draws_over_seeds_and_streams_follow_the_distribution():
    p = distribution(0.5, 0.3, 0.2)
    for draws in (
        [Noise(seed).draw(p, 4) for seed in range(5000)],
        [Noise(1, s).draw(p, 4) for s in range(5000)],
    ):
        assert stats.chisquare(np.bincount(draws), 5000 * p.probs).pvalue > 0.001


def test_a_draw_is_the_largest_log_probability_plus_noise():
    noise = Noise(9)
    generator = np.random.default_rng(0)
    for position in range(200):
        ids = np.sort(generator.choice(1000, size=50, replace=False))
        p = Distribution(ids=ids, probs=generator.dirichlet(np.ones(50)))
        assert noise.draw(p, position) == ids[np.argmax(np.log(p.probs) + noise.gumbel(position, ids))]


def test_a_draw_survives_probabilities_at_the_edge_of_the_range():
    p = Distribution(ids=np.array([1, 2]), probs=np.array([5e-324, 1.0]))
    assert {Noise(seed).draw(p, 0) for seed in range(20)} == {2}


def test_noise_values_are_frozen():
    # A saved seed must give the same text in later versions: never change these.
    ids = np.array([0, 1, 2, 151_935])
    assert Noise(42).gumbel(0, ids).tolist() == pytest.approx(GUMBEL_42, rel=1e-13)
    p = distribution(0.1, 0.2, 0.3, 0.4)
    assert [Noise(42).draw(p, position) for position in range(24)] == DRAWS_42
    assert [Noise(42, 1).draw(p, position) for position in range(24)] == DRAWS_42_STREAM_1
    assert [Noise(2**64 - 1).draw(p, position) for position in range(24)] == DRAWS_MAX


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), r"seed is -1; it must be a whole number in 0\.\.2\*\*64-1"),
        ((2**64,), "seed is 18446744073709551616"),
        ((0, -1), "stream is -1"),
        ((0, 2**64), "stream is 18446744073709551616"),
    ],
)
def test_a_seed_or_stream_outside_its_range_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Noise(*arguments)
