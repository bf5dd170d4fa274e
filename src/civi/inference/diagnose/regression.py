"""Predictions of a regression with Gaussian noise: error, likelihood, coverage of intervals and calibration."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr

from civi.inference.diagnose.divergence import mean_and_se

LOG_2PI = float(np.log(2 * np.pi))
LEVELS = (0.5, 0.9)


def regression_scores(predicted: np.ndarray, sd: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of the predictive distribution of each row, the mixture over draws s of N(predicted_sn, sd_sn^2).

    rmse is that of the predictive mean and nll is -log of the predictive density per row, with their standard errors
    over rows. coverage_50 and coverage_90 are the shares of rows inside the central intervals. calibration_error is the
    mean distance between the sorted values F_n(y_n) of the predictive distribution functions and the quantiles of the
    uniform distribution: 0 if the predictions are calibrated and 0.25 if the intervals are far too wide or far too
    narrow.

    Args:
        predicted: predictions, of shape (draws, rows), in the units of y.
        sd: standard deviation of y given a draw, of the same shape, in the units of y.
        y: the observed targets.
    """
    z = (y - predicted) / sd
    log_density = -0.5 * (z**2 + LOG_2PI) - np.log(sd)
    nll, nll_se = mean_and_se(np.log(len(predicted)) - logsumexp(log_density, axis=0))
    square, square_se = mean_and_se((predicted.mean(0) - y) ** 2)
    rmse = np.sqrt(square)
    below = ndtr(z).mean(0)
    uniform = (np.arange(len(y)) + 0.5) / len(y)
    inside = {f"coverage_{level:.0%}".rstrip("%"): np.abs(below - 0.5) <= level / 2 for level in LEVELS}
    return {
        "rmse": float(rmse),
        "rmse_se": float(square_se / (2 * rmse)),
        "nll": nll,
        "nll_se": nll_se,
        **{name: float(share.mean()) for name, share in inside.items()},
        "calibration_error": float(np.abs(np.sort(below) - uniform).mean()),
    }
