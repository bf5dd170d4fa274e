"""Predictions of a logistic regression: posterior mean and standard deviation of each probability, and scores."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

BINS = 10
ROWS = 500


def predictive(x: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation of the probability sigmoid(x z), for every row of x.

    Args:
        x: data, of shape (rows, dim).
        draws: posterior draws of z, of shape (N, dim).
    """

    def of_row(row: Array) -> tuple[Array, Array]:
        probability = jax.nn.sigmoid(jnp.asarray(draws) @ row)
        return probability.mean(), probability.std()

    mean, sd = jax.lax.map(of_row, jnp.asarray(x), batch_size=min(ROWS, len(x)))
    return np.asarray(mean, np.float64), np.asarray(sd, np.float64)


def scores(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Mean log predictive density per row, accuracy, and expected calibration error.

    For the calibration error, the rows are sorted by probability and split into BINS groups of equal size. The error
    is the mean over the groups, weighted by their size, of |share of ones - mean probability|. Rows with the same
    probability (to six decimals) all count with their common share of ones, so that the order of the rows does not
    matter.

    Args:
        probability: predicted probability of each row.
        y: labels, 0 or 1.
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
    """For every row, the share of ones among all rows with the same probability."""
    _, which = np.unique(probability, return_inverse=True)
    return (np.bincount(which, y) / np.bincount(which))[which]
