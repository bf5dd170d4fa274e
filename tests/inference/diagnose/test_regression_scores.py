"""Scores of predictive distributions against closed forms, and on data that the predictions fit or do not fit."""

import numpy as np
import pytest
from scipy import stats

from civi.inference.diagnose.regression import regression_scores


def test_one_draw_gives_the_scores_of_a_gaussian():
    y, predicted = np.array([1.0, 2.0, 4.0]), np.array([[0.0, 2.0, 5.0]])
    scores = regression_scores(predicted, np.array([2.0]), y)
    assert scores["rmse"] == pytest.approx(np.sqrt(2 / 3))
    assert scores["nll"] == pytest.approx(-stats.norm(predicted[0], 2.0).logpdf(y).mean())
    assert (scores["coverage_50"], scores["coverage_90"]) == (1.0, 1.0)


def test_many_draws_give_the_scores_of_the_mixture():
    rng = np.random.default_rng(0)
    predicted, noise, y = rng.normal(size=(7, 5)), rng.uniform(0.5, 2, (7, 5)), rng.normal(size=5)
    scores = regression_scores(predicted, noise, y)
    density = np.mean([stats.norm(row, sd).pdf(y) for row, sd in zip(predicted, noise, strict=True)], axis=0)
    assert scores["nll"] == pytest.approx(-np.log(density).mean())
    assert scores["rmse"] == pytest.approx(np.sqrt(((predicted.mean(0) - y) ** 2).mean()))
    in_other_units = regression_scores(3 + 10 * predicted, 10 * noise, 3 + 10 * y)
    assert in_other_units["rmse"] == pytest.approx(10 * scores["rmse"])
    assert in_other_units["nll"] == pytest.approx(scores["nll"] + np.log(10))
    assert in_other_units["calibration_error"] == pytest.approx(scores["calibration_error"])


def test_standard_errors_are_the_spread_over_test_sets():
    rng = np.random.default_rng(2)
    predicted, sd = np.zeros((1, 200)), np.array([0.8])
    found = [regression_scores(predicted, sd, rng.standard_t(8, size=200)) for _ in range(2000)]
    for name in ("rmse", "nll"):
        spread = np.std([scores[name] for scores in found], ddof=1)
        claimed = np.mean([scores[f"{name}_se"] for scores in found])
        assert claimed == pytest.approx(spread, rel=0.08)  # 4.5 standard errors, 1 / sqrt(2 * 2000) each


def test_intervals_of_the_right_width_cover_and_others_do_not():
    rng, rows = np.random.default_rng(1), 4000
    predicted = rng.normal(size=(1, rows))
    y = predicted[0] + rng.normal(size=rows)
    right, wide, narrow = (regression_scores(predicted, np.array([sd]), y) for sd in (1.0, 1.5, 0.6))
    for level, name in ((0.5, "coverage_50"), (0.9, "coverage_90")):
        error = np.sqrt(level * (1 - level) / rows)
        assert right[name] == pytest.approx(level, abs=4.5 * error)
        assert wide[name] > level + 10 * error
        assert narrow[name] < level - 10 * error
    assert right["calibration_error"] < 0.02 < min(wide["calibration_error"], narrow["calibration_error"])
