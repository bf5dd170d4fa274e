"""Distances between samples."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

DIRECTIONS = 500


def sliced_wasserstein(
    x: Float[Array | np.ndarray, "N D"], y: Float[Array | np.ndarray, "N D"], key: PRNGKeyArray
) -> float:
    """Sliced Wasserstein-2 distance between two samples of equal size.

    This is the square root of the mean, over DIRECTIONS random directions, of W2^2 between the projections. It uses
    NumPy, whose sort is much faster than XLA's on a CPU.

    Args:
        x: first sample.
        y: second sample.
        key: random key of the directions.

    Returns:
        The distance; NaN if a draw is not finite.
    """
    direction = np.asarray(jax.random.normal(key, (DIRECTIONS, x.shape[1])))
    direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        sorted_x, sorted_y = (np.sort(direction @ np.asarray(points, np.float32).T, axis=1) for points in (x, y))
        return float(np.sqrt(((sorted_x - sorted_y).astype(np.float64) ** 2).mean()))
