"""Predicted acceptance: it learns, doubts, forgets, and its quality is measured."""

import json

import numpy as np
import pytest

from leadout.core.estimate import AcceptanceModel, Calibration, Prediction
from leadout.errors import InputError


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def taught(model, pairs, **options):
    for confidence, stood in pairs:
        model = model.learn(confidence, 0, 50, stood, **options)
    return model


def test_before_any_verdict_the_drafter_is_taken_at_its_word():
    chances = [AcceptanceModel().predict(c, 0, 50).mean for c in (0.01, 0.3, 0.5, 0.7, 0.99)]
    assert chances == sorted(chances)
    assert chances[2] == pytest.approx(0.5, abs=0.02)
    assert chances[0] < 0.1
    assert chances[4] > 0.9


def test_verdicts_move_the_prediction_and_narrow_it():
    fresh = AcceptanceModel()
    before = fresh.predict(0.9, 0, 50)
    right, wrong = taught(fresh, [(0.9, True)] * 30), taught(fresh, [(0.9, False)] * 30)
    assert right.predict(0.9, 0, 50).mean > before.mean > wrong.predict(0.9, 0, 50).mean
    assert wrong.predict(0.9, 0, 50).mean < 0.15
    mixed = taught(fresh, [(0.9, True), (0.9, False)] * 15)
    assert mixed.predict(0.9, 0, 50).sd < before.sd


def test_the_posterior_has_the_mean_of_the_exact_one():
    # one feature is enough for a grid: confidence 1/2, offset 0 and the middle position leave the bias alone
    position = round(np.exp(4.0) - 1)
    model, grid = AcceptanceModel(), np.linspace(-6, 6, 4001)
    density = np.exp(-(grid**2) / 2)
    for stood in (True, True, False, True, True, True):
        model = model.learn(0.5, 0, position, stood, keep=1.0)
        density *= sigmoid(grid) if stood else sigmoid(-grid)
    density /= density.sum()
    exact = (density * sigmoid(grid)).sum()
    assert model.predict(0.5, 0, position).mean == pytest.approx(exact, abs=0.02)


def test_old_verdicts_are_forgotten():
    model = taught(AcceptanceModel(), [(0.8, True)] * 300 + [(0.8, False)] * 60)
    steady = taught(AcceptanceModel(), [(0.8, True)] * 300 + [(0.8, False)] * 60, keep=1.0)
    assert model.predict(0.8, 0, 50).mean < steady.predict(0.8, 0, 50).mean


def test_widening_gives_doubt_and_nothing_else():
    model = taught(AcceptanceModel(), [(0.9, True)] * 40)
    wide = model.widened(0.5)
    assert wide.weights == model.weights
    assert wide.predict(0.9, 0, 50).sd > model.predict(0.9, 0, 50).sd
    assert model.widened(1.0).covariance == AcceptanceModel().covariance


@pytest.mark.parametrize("confidence", [0.0, 1e-12, 1.0])
def test_certainty_is_bounded(confidence):
    model = taught(AcceptanceModel(), [(confidence, confidence < 0.5)] * 5)
    found = model.predict(confidence, 63, 10**6)
    assert 0 < found.mean < 1
    assert np.isfinite(found.sd)


def test_extreme_weights_do_not_overflow():
    for weight in (1e6, -1e6):
        model = AcceptanceModel(weights=(weight, 1.0, 0.0, 0.0))
        assert 0 <= model.predict(0.5, 0, 0).mean <= 1
        assert model.learn(0.5, 0, 0, weight < 0).weights != model.weights


def test_a_stream_whose_confidence_tells_something_is_predicted_better_than_by_its_mean():
    rng, model, scores = np.random.default_rng(3), AcceptanceModel(), Calibration()
    for i in range(2000):
        logit = rng.normal(1.0, 2.0)
        stood = bool(rng.random() < sigmoid(0.6 * logit - 0.5))  # a drafter that is too sure of itself
        confidence, offset = float(sigmoid(logit)), i % 4
        scores = scores.add(model.predict(confidence, offset, i).mean, stood)
        model = model.learn(confidence, offset, i, stood)
    assert scores.brier < 0.8 * scores.brier_of_mean
    for each in scores.bins:
        if each.n > 100:
            assert each.predicted / each.n == pytest.approx(each.n_stood / each.n, abs=0.12)


def test_scores_are_worked_out_by_hand():
    scores = Calibration().add(0.75, True).add(0.25, False).add(1.0, False)
    assert scores.brier == pytest.approx((0.25**2 + 0.25**2 + 1) / 3)
    assert scores.brier_of_mean == pytest.approx((0.5**2 + 0.75**2 + 0.5**2) / 3)
    table = json.loads(json.dumps(scores.to_json()))["reliability"]
    assert table == [
        {"from": 0.2, "n": 1, "predicted": 0.25, "stood": 0.0},
        {"from": 0.7, "n": 1, "predicted": 0.75, "stood": 1.0},
        {"from": 0.9, "n": 1, "predicted": 1.0, "stood": 0.0},
    ]
    assert (Calibration().brier, Calibration().brier_of_mean) == (None, None)


def test_a_model_survives_being_written():
    model = taught(AcceptanceModel(), [(0.9, True), (0.2, False)])
    again = AcceptanceModel.from_json(json.loads(json.dumps(model.to_json())))
    assert again == model
    assert isinstance(again.predict(0.5, 1, 1), Prediction)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "needs 4 rows of covariance"),
        ({"weights": [0, 1, 0], "covariance": [[1, 0, 0, 0]] * 4}, "rows of 4 numbers"),
        ({"weights": [0, 1, 0, 0], "covariance": [[1, 0, 0, None]] * 4}, "rows of 4 numbers"),
        ({"weights": [0, 1, 0, float("nan")], "covariance": [[1, 0, 0, 0]] * 4}, "rows of 4 numbers"),
        ({"weights": [0, 1, 0, -2e6], "covariance": [[1, 0, 0, 0]] * 4}, "numbers up to 1,000,000"),
        ({"weights": [0, 1, 0, 0], "covariance": [[1, -1, 0, 0]] * 4}, "needs 4 rows of covariance"),
        ({"weights": None, "covariance": [[1, 0, 0, 0]] * 4}, "rows of 4 numbers"),
    ],
)
def test_a_damaged_model_is_refused(values, said):
    with pytest.raises(InputError, match=said):
        AcceptanceModel.from_json(values)


def test_uncertainty_is_the_quadratic_form_of_the_covariance():
    model, rng = AcceptanceModel(), np.random.default_rng(0)
    for _ in range(50):
        model = model.learn(
            rng.uniform(), int(rng.integers(8)), int(rng.integers(300)), bool(rng.integers(2))
        )
    x = np.array([1.0, np.log(0.7 / 0.3), np.log1p(3), np.log1p(40) - 4])
    found = model.predict(0.7, 3, 40)
    variance = x @ np.array(model.covariance) @ x
    logit = np.array(model.weights) @ x
    mean = 1 / (1 + np.exp(-logit / np.sqrt(1 + np.pi / 8 * variance)))
    assert found.mean == pytest.approx(mean)
    assert found.sd == pytest.approx(mean * (1 - mean) * np.sqrt(variance))


def test_many_tokens_are_predicted_as_one_by_one():
    model = taught(AcceptanceModel(), [(0.9, True), (0.8, False), (0.99, True)])
    confidences = np.array([[0.0, 0.4, 1.0], [0.5, 0.9, 0.99], [0.2, 0.3, 0.7]])
    means, sds = model.predict_many(confidences, 17)
    for offset, row in enumerate(confidences):
        for at, confidence in enumerate(row):
            one = model.predict(confidence, offset, 17)
            assert (means[offset, at], sds[offset, at]) == pytest.approx((one.mean, one.sd), abs=1e-12)
