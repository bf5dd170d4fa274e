"""Numbers of the table of parameters: moments, quantiles and Monte Carlo errors, with and without weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from civi.inference.diagnose.importance import smooth_weights
from civi.inference.report.content import Content


class Moments(NamedTuple):
    """Mean and standard deviation of each parameter, with their Monte Carlo standard errors."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray


def weights_of(content: Content) -> np.ndarray | None:
    """Pareto-smoothed importance weights p / q of the draws, which sum to 1; None if they are not known."""
    if content.log_ratios is None or not np.isfinite(content.log_ratios).all():
        return None
    weights = np.exp(smooth_weights(content.log_ratios).log_weights)
    return weights / weights.sum()


def moments(draws: np.ndarray, weights: np.ndarray | None = None, sizes: np.ndarray | None = None) -> Moments:
    """Moments of weighted draws.

    The standard error of the mean m is sqrt(sum_i w_i^2 (x_i - m)^2), and that of the standard deviation s is
    sqrt(sum_i w_i^2 ((x_i - m)^2 - s^2)^2) / (2 s). With equal weights these are the usual ones.

    Args:
        draws: draws (draw, parameter).
        weights: weights that sum to 1; None: equal weights.
        sizes: effective sample size of each parameter, if the draws are correlated.
    """
    count = len(draws)
    w = np.full(count, 1 / count) if weights is None else weights
    mean = w @ draws
    squares = (draws - mean) ** 2
    variance = w @ squares
    sd = np.sqrt(variance)
    loss = np.ones(1) if sizes is None else np.sqrt(count / np.maximum(sizes, 1))
    mean_error = np.sqrt(w**2 @ squares) * loss
    with np.errstate(all="ignore"):
        sd_error = np.where(sd > 0, np.sqrt(w**2 @ (squares - variance) ** 2) / (2 * sd), 0.0) * loss
    return Moments(mean, sd, mean_error, sd_error)


def misfit(content: Content, weights: np.ndarray | None) -> np.ndarray | None:
    """How far off each parameter is: the larger of the error of the mean in sd and of the log standard deviation.

    The truth are the reference draws if there are any, and otherwise the weighted draws; None without both.
    """
    if content.draws is None:
        return None
    ours = moments(content.draws)
    if content.reference is not None:
        truth = moments(content.reference)
    elif weights is not None:
        truth = moments(content.draws, weights)
    else:
        return None
    with np.errstate(all="ignore"):
        shift = np.abs(ours.mean - truth.mean) / truth.sd
        change = np.abs(np.log(ours.sd / truth.sd))
    return np.nan_to_num(np.maximum(shift, change), nan=0.0, posinf=1e300)
