"""How well draws agree with reference draws of Markov chains."""

from __future__ import annotations

import jax
import numpy as np

from civi.inference.diagnose.distance import sliced_wasserstein

SPLITS, STRETCH = 16, 100


def agreement(draws: np.ndarray, chains: np.ndarray) -> dict[str, float]:
    """Sliced Wasserstein distance with its Monte Carlo floor, and the largest errors of the first two moments.

    The floor is the distance between two random halves of the reference. The distance is measured between one half and
    a subset of `draws` of the same size. Both are root mean squares over the same SPLITS random halves, because the
    distance of a single pair varies a lot in few dimensions.

    Args:
        draws: draws to judge, of shape (N, dim).
        chains: reference draws, of shape (chain, draw, dim).

    Returns:
        The metrics by name.
    """
    rng, key = np.random.default_rng(0), jax.random.key(0)
    floor, distance = [], []
    for _ in range(SPLITS):
        first, second = _halves(chains, rng)
        piece = draws[rng.choice(len(draws), len(first), replace=len(draws) < len(first))]
        floor.append(sliced_wasserstein(first, second, key) ** 2)
        distance.append(sliced_wasserstein(piece, first, key) ** 2)
    return {
        "sliced_wasserstein": float(np.sqrt(np.mean(distance))),
        "sliced_wasserstein_floor": float(np.sqrt(np.mean(floor))),
        **moment_errors(draws, chains.reshape(-1, chains.shape[-1])),
    }


def _halves(chains: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Split the reference at random into two halves.

    Whole stretches of about STRETCH consecutive draws go to the same half, so that each half keeps the
    autocorrelation of the chains.
    """
    stretches = [part for chain in chains for part in np.array_split(chain, max(1, chains.shape[1] // STRETCH))]
    order = rng.permutation(len(stretches))
    middle = len(stretches) // 2
    first, second = (np.concatenate([stretches[i] for i in half]) for half in (order[:middle], order[middle:]))
    size = min(len(first), len(second))
    return first[:size], second[:size]


def moment_errors(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Errors of the moments of `draws` (N, dim) relative to those of `reference` (M, dim).

    Returns:
        The smallest and largest ratio of standard deviations, the largest error of a mean in units of the reference
        standard deviation, and the largest error of a correlation.
    """
    sd = reference.std(0, ddof=1)
    ratio = draws.std(0, ddof=1) / sd
    correlation = np.corrcoef(draws, rowvar=False) - np.corrcoef(reference, rowvar=False)
    return {
        "sd_ratio_min": float(ratio.min()),
        "sd_ratio_max": float(ratio.max()),
        "mean_error_max": float((np.abs(draws.mean(0) - reference.mean(0)) / sd).max()),
        "correlation_error_max": float(np.abs(correlation).max()),
    }
