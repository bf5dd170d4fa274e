"""Predictions of a logistic regression: the posterior mean and spread of each row's probability, and their scores."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

BINS = 10
ROWS = 500


def predictive(x: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over the draws of sigmoid(x z), for every row of x."""

    def of_row(row: Array) -> tuple[Array, Array]:
        probability = jax.nn.sigmoid(jnp.asarray(draws) @ row)
        return probability.mean(), probability.std()

    mean, sd = jax.lax.map(of_row, jnp.asarray(x), batch_size=min(ROWS, len(x)))
    return np.asarray(mean, np.float64), np.asarray(sd, np.float64)


def scores(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Mean log predictive density of a row, accuracy, and calibration error.

    The calibration error is the mean over BINS groups of equal size, ordered by probability, of the difference between
    the share of ones and the mean probability. Rows of equal probability (to six digits) count with their common share
    of ones, so that the order of the rows does not matter.
    """
    tiny = np.finfo(np.float32).tiny
    of_label = np.where(y == 1, probability, 1 - probability)
    groups = np.array_split(np.argsort(probability, kind="stable"), min(BINS, len(y)))
    share = _shared(probability.round(6), y)
    gaps = [abs(share[group].mean() - probability[group].mean()) * len(group) for group in groups]
    return {
        "log_predictive_density": float(np.log(np.maximum(of_label, tiny)).mean()),
        "accuracy": float(((probability > 0.5) == (y == 1)).mean()),
        "calibration_error": float(np.sum(gaps) / len(y)),
    }


def _shared(probability: np.ndarray, y: np.ndarray) -> np.ndarray:
    """For every row, the share of ones among the rows of its probability."""
    _, which = np.unique(probability, return_inverse=True)
    return (np.bincount(which, y) / np.bincount(which))[which]
