"""Predictions and their scores against NumPy and against numbers computed by hand."""

import numpy as np
import pytest
from scipy import special

from civi.inference.diagnose import predictive as module
from civi.inference.diagnose.predictive import predictive, scores


def test_mean_and_sd_of_the_probability_are_those_of_numpy(monkeypatch):
    """Seven rows are processed three at a time."""
    monkeypatch.setattr(module, "ROWS", 3)
    rng = np.random.default_rng(0)
    x, draws = rng.normal(size=(7, 2)).astype(np.float32), rng.normal(size=(50, 2)).astype(np.float32) * 3
    probability = special.expit(x.astype(float) @ draws.T.astype(float))
    mean, sd = predictive(x, draws)
    np.testing.assert_allclose(mean, probability.mean(1), atol=1e-6)
    np.testing.assert_allclose(sd, probability.std(1), atol=1e-6)
    assert mean.dtype == sd.dtype == np.float64
    at_the_mean = special.expit(x @ draws.mean(0))
    assert not np.allclose(mean, at_the_mean, atol=0.05)


def test_scores_of_four_rows_by_hand():
    """Four rows are four groups of one, so the calibration error is the mean of |y - p|."""
    found = scores(np.array([0.9, 0.2, 0.6, 0.3]), np.array([1.0, 0.0, 1.0, 1.0]))
    assert found["log_predictive_density"] == pytest.approx(np.log(0.9 * 0.8 * 0.6 * 0.3) / 4)
    assert found["accuracy"] == 0.75
    assert found["calibration_error"] == pytest.approx((0.1 + 0.2 + 0.4 + 0.7) / 4)


def test_calibration_groups_are_ordered_by_probability(monkeypatch):
    """Two groups of four: mean probabilities 0.2 and 0.7, shares of ones 1/4 and 3/4, in shuffled order."""
    monkeypatch.setattr(module, "BINS", 2)
    probability = np.array([0.9, 0.1, 0.5, 0.2, 0.8, 0.3, 0.6, 0.2])
    y = np.array([1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    assert scores(probability, y)["calibration_error"] == pytest.approx((0.05 + 0.05) / 2)
    monkeypatch.setattr(module, "BINS", 1)
    assert scores(probability, y)["calibration_error"] == pytest.approx(0.05)


def test_groups_of_unequal_size_count_by_their_rows(monkeypatch):
    """Three rows in two groups: two of probability 0.1, one of 0.7."""
    monkeypatch.setattr(module, "BINS", 2)
    found = scores(np.array([0.7, 0.1, 0.1]), np.array([1.0, 0.0, 1.0]))
    assert found["calibration_error"] == pytest.approx((2 * 0.4 + 0.3) / 3)


def test_calibrated_groups_have_no_error_and_others_have_theirs():
    """Ten groups of ten rows; in group i the probability is i/10 and i rows are ones."""
    share = np.repeat(np.arange(10) / 10, 10)
    y = np.concatenate([np.repeat([1.0, 0.0], [ones, 10 - ones]) for ones in range(10)])
    order = np.random.default_rng(0).permutation(100)
    assert scores(share[order], y[order])["calibration_error"] == pytest.approx(0, abs=1e-12)
    assert scores(share[order] + 0.04, y[order])["calibration_error"] == pytest.approx(0.04)
    assert scores(share[order], 1 - y[order])["calibration_error"] > 0.3


def test_a_certain_prediction_that_is_wrong_is_finite():
    found = scores(np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0]))
    assert found["accuracy"] == 0.5
    assert found["log_predictive_density"] == pytest.approx(np.log(np.finfo(np.float32).tiny) / 2)


def test_the_calibration_error_does_not_depend_on_the_order_of_equal_rows():
    """Half of 200 equal rows are ones. That is calibrated, even if all ones come first."""
    probability, y = np.full(200, 0.5), np.repeat([1.0, 0.0], 100)
    assert scores(probability, y)["calibration_error"] == 0
    assert scores(probability, np.repeat([1.0, 0.0], [150, 50]))["calibration_error"] == pytest.approx(0.25)
