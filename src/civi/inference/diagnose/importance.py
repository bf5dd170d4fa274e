"""Pareto-smoothed importance weights p / q of draws of q, which show how well q covers p."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from civi.inference.diagnose.pareto import pareto_smoothed

SAME = 1e-3


class SmoothedWeights(NamedTuple):
    """Normalised log weights, the shape k_hat of their Pareto tail, and their effective sample size."""

    log_weights: np.ndarray
    k_hat: float
    effective_size: float


def smooth_weights(log_ratios: np.ndarray) -> SmoothedWeights:
    """Pareto-smoothed importance weights (Vehtari et al. 2024). They are reliable if k_hat is below 0.7.

    If all log ratios are equal within SAME, the weights have no tail, and k_hat is set to 0.

    Args:
        log_ratios: log p - log q at draws of q.
    """
    if np.ptp(log_ratios) < SAME:
        count = len(log_ratios)
        return SmoothedWeights(np.full(count, -np.log(count)), 0.0, float(count))
    log_weights, k_hat = pareto_smoothed(log_ratios)
    weights = np.exp(log_weights)
    return SmoothedWeights(log_weights, k_hat, float(weights.sum() ** 2 / (weights**2).sum()))


def resample(draws: np.ndarray, smoothed: SmoothedWeights, count: int, rng: np.random.Generator) -> np.ndarray:
    """Resample `count` of the draws with replacement, with probabilities proportional to their weights."""
    weights = np.exp(smoothed.log_weights)
    return draws[rng.choice(len(draws), count, p=weights / weights.sum())]
