"""Pareto smoothing of importance weights (Vehtari et al. 2024), with the tail fit of Zhang and Stephens (2009)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FEWEST_IN_TAIL = 5
SMALLEST_LOG_WEIGHT = np.log(np.finfo(np.float64).tiny)
QUARTILE_FACTOR, PRIOR_SHAPE, PRIOR_COUNT = 3, 0.5, 10


class Tail(NamedTuple):
    """Shape k and scale sigma of a generalised Pareto distribution; its mean is infinite for k >= 1."""

    shape: float
    scale: float

    def quantiles(self, probability: np.ndarray) -> np.ndarray:
        """sigma ((1 - p)^-k - 1) / k, or -sigma log(1 - p) for k = 0; NaN if the scale is not positive."""
        if not self.scale > 0:
            return np.full_like(probability, np.nan)
        log_rest = np.log1p(-probability)
        if abs(self.shape) < np.finfo(np.float64).eps:
            return -log_rest * self.scale
        return np.expm1(-self.shape * log_rest) / self.shape * self.scale


def pareto_smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Normalised log weights whose largest values are replaced by quantiles of a fitted Pareto tail, and its shape.

    The tail has the min(S / 5, 3 sqrt(S)) largest of S weights. With fewer than FEWEST_IN_TAIL values above the
    others, nothing is replaced and the shape is infinite. No smoothed weight exceeds the largest original one.

    Args:
        log_ratios: log p - log q at S draws of q.

    Returns:
        The log weights, whose exponentials sum to 1, and k_hat.
    """
    count = len(log_ratios)
    log_weights = np.asarray(log_ratios, np.float64) - np.max(log_ratios)
    tail_size = int(np.ceil(min(count / 5, 3 * count**0.5)))
    cutoff = max(np.sort(log_weights)[-tail_size - 1], SMALLEST_LOG_WEIGHT)
    (members,) = np.nonzero(log_weights > cutoff)
    shape = np.inf
    if len(members) >= FEWEST_IN_TAIL:
        ordered = members[np.argsort(log_weights[members])]
        tail = fit_tail(np.exp(log_weights[ordered]) - np.exp(cutoff))
        shape = tail.shape
        if np.isfinite(shape):
            smoothed = tail.quantiles(np.arange(0.5, len(members)) / len(members))
            log_weights[ordered] = np.minimum(np.log(smoothed + np.exp(cutoff)), 0)
    return log_weights - _log_sum(log_weights), float(shape)


def fit_tail(excesses: np.ndarray) -> Tail:
    """Empirical-Bayes estimate of a generalised Pareto distribution.

    With b = -k / sigma, the profile likelihood of b has k(b) = mean log(1 - b x) and

        log L(b) = n (log(-b / k(b)) - k(b) - 1).

    b is its mean under L on a grid of 30 + sqrt(n) values, and k is shrunk towards PRIOR_SHAPE by PRIOR_COUNT values.

    Args:
        excesses: positive values in ascending order.
    """
    count, largest = len(excesses), excesses[-1]
    size = 30 + int(count**0.5)
    spread = 1 - np.sqrt(size / (np.arange(1, size + 1) - 0.5))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        grid = spread / (QUARTILE_FACTOR * excesses[int(count / 4 + 0.5) - 1]) + 1 / largest
        shapes = np.log1p(-grid[:, None] * excesses).mean(axis=1)
        log_likelihood = count * (np.log(-(grid / shapes)) - shapes - 1)
        weights = 1 / np.exp(log_likelihood - log_likelihood[:, None]).sum(axis=1)
        kept = weights >= 10 * np.finfo(np.float64).eps
        b = np.sum(grid[kept] * (weights[kept] / weights[kept].sum()))
        shape = np.log1p(-b * excesses).mean()
        return Tail((count * shape + PRIOR_COUNT * PRIOR_SHAPE) / (count + PRIOR_COUNT), -shape / b)


def _log_sum(log_weights: np.ndarray) -> float:
    largest = log_weights.max()
    return np.log(np.exp(log_weights - largest).sum()) + largest
