"""How far draws are from reference draws of a Markov chain."""

from __future__ import annotations

import jax
import numpy as np

from civi.diagnose.distance import sliced_wasserstein


def agreement(draws: np.ndarray, chains: np.ndarray) -> dict[str, float]:
    """Distance with its Monte Carlo floor, and the largest errors of the first two moments.

    chains is (chain, draw, dim). The floor is the distance between the two halves of the chains; the distance is the
    root mean square over both halves and as many pieces of `draws` as have the size of a half.
    """
    dim = chains.shape[-1]
    halves = [half.reshape(-1, dim) for half in np.array_split(chains, 2)]
    size = min(len(draws), *(len(half) for half in halves))
    first, second = (half[np.linspace(0, len(half) - 1, size).astype(int)] for half in halves)
    pieces = [draws[start : start + size] for start in range(0, len(draws) - size + 1, size)]
    key = jax.random.key(0)
    squares = [float(sliced_wasserstein(piece, half, key)) ** 2 for piece in pieces for half in (first, second)]
    return {
        "sliced_wasserstein": float(np.sqrt(np.mean(squares))),
        "sliced_wasserstein_floor": float(sliced_wasserstein(first, second, key)),
        **moment_errors(draws, chains.reshape(-1, dim)),
    }


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
