"""How far draws are from reference draws of a Markov chain."""

from __future__ import annotations

import jax
import numpy as np

from civi.inference.diagnose.distance import sliced_wasserstein

SPLITS, STRETCH = 16, 100


def agreement(draws: np.ndarray, chains: np.ndarray) -> dict[str, float]:
    """Distance with its Monte Carlo floor, and the largest errors of the first two moments.

    chains is (chain, draw, dim). The floor is the distance between two halves of the reference; the distance is that
    of a piece of `draws`, as large as a half, to a half. Both are root mean squares over the same random halves: the
    distance of a single pair varies much in few dimensions.
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
    """The reference in stretches of at most STRETCH draws, which keep its autocorrelation, dealt into two halves."""
    stretches = [part for chain in chains for part in np.array_split(chain, max(1, chains.shape[1] // STRETCH))]
    order = rng.permutation(len(stretches))
    middle = len(stretches) // 2
    first, second = (np.concatenate([stretches[i] for i in half]) for half in (order[:middle], order[middle:]))
    size = min(len(first), len(second))
    return first[:size], second[:size]


def moment_errors(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Smallest and largest ratio of standard deviations, largest mean error in sd, largest correlation error."""
    sd = reference.std(0, ddof=1)
    ratio = draws.std(0, ddof=1) / sd
    correlation = np.corrcoef(draws, rowvar=False) - np.corrcoef(reference, rowvar=False)
    return {
        "sd_ratio_min": float(ratio.min()),
        "sd_ratio_max": float(ratio.max()),
        "mean_error_max": float((np.abs(draws.mean(0) - reference.mean(0)) / sd).max()),
        "correlation_error_max": float(np.abs(correlation).max()),
    }
