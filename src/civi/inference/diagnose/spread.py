"""R-hat between independent runs: whether they found the same posterior."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri


def r_hat(draws: np.ndarray) -> float | None:
    """The largest rank-normalised R-hat over all parameters (Vehtari et al. 2021).

    It is the larger of the R-hat of the ranks and that of the ranks of the distance from the median, so it detects
    differences in location and in scale. For two runs whose means are d standard deviations apart it is about
    sqrt(1 + d^2 / 3).

    Args:
        draws: draws of all runs, of shape (run, draw, dim).

    Returns:
        The largest R-hat; infinity if a draw is not finite, None for a single run.
    """
    if len(draws) < 2:
        return None
    if not np.isfinite(draws).all():
        return float("inf")
    return max(rank_r_hat(draws[:, :, i].astype(np.float64)) for i in range(draws.shape[2]))


def rank_r_hat(chains: np.ndarray) -> float:
    """Rank-normalised split R-hat of one parameter, of shape (chain, draw); every chain is divided into halves."""
    half = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :half], chains[:, -half:]])
    distances = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(_normal_scores(halves)), _plain_r_hat(_normal_scores(distances)))


def _plain_r_hat(chains: np.ndarray) -> float:
    """sqrt(((N - 1) W + B) / (N W)) with W the mean variance within N draws and B the variance of means times N."""
    draws = chains.shape[1]
    within = np.mean(chains.var(axis=1, ddof=1))
    between = draws * chains.mean(axis=1).var(ddof=1)
    return float(np.sqrt((between / within + draws - 1) / draws))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Standard normal quantiles of (rank - 3/8) / (S + 1/4); equal values get their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    return ndtri((mean_rank[index.reshape(values.shape)] - 3 / 8) / (values.size - 2 * 3 / 8 + 1))
