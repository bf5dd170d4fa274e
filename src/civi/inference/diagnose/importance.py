"""Importance weights p / q of draws of q: how well q covers p, by Pareto-smoothed importance sampling."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from civi.inference.load_arviz import import_arviz

SAME = 1e-3


class Smoothed(NamedTuple):
    """Normalised log weights, the shape k of their tail, and the effective number of draws they are worth."""

    log_weights: np.ndarray
    k_hat: float
    effective_size: float


def smooth(log_ratios: np.ndarray) -> Smoothed:
    """Pareto-smoothed weights of log p - log q (Vehtari et al. 2024); k_hat below 0.7 means they can be trusted.

    Weights that are all the same have no tail, and k_hat 0.
    """
    if np.ptp(log_ratios) < SAME:
        count = len(log_ratios)
        return Smoothed(np.full(count, -np.log(count)), 0.0, float(count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        log_weights, k_hat = import_arviz().psislw(np.asarray(log_ratios, np.float64))
    weights = np.exp(np.asarray(log_weights))
    return Smoothed(np.asarray(log_weights), float(k_hat), float(weights.sum() ** 2 / (weights**2).sum()))


def resample(draws: np.ndarray, smoothed: Smoothed, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` of the draws, each as often as its weight says."""
    weights = np.exp(smoothed.log_weights)
    return draws[rng.choice(len(draws), count, p=weights / weights.sum())]
