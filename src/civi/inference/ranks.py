"""Whether ranks are uniform: an exact test with the simultaneous envelope of Säilynoja et al. (2022).

N independent ranks are uniform on 0..L if q is the posterior. At the cut points c the number of ranks below c is
binomial with probability c / (L + 1), which gives each cut point a two-sided p-value. The test statistic is the
smallest of them. Its distribution is exact: the counts at growing cut points are a Markov chain, whose probability to
stay inside of an envelope is a product of matrices.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

CUTS, LIMITS = 50, 400


def cut_points(draws: int) -> np.ndarray:
    """At most CUTS integers from 1 to `draws`, evenly spaced."""
    return np.unique(np.linspace(1, draws, min(draws, CUTS)).round().astype(int))


def p_values(ranks: np.ndarray, draws: int) -> np.ndarray:
    """The exact p-value of uniformity of each column of ranks (N, M), which are integers from 0 to `draws`."""
    cuts, count = cut_points(draws), len(ranks)
    below = np.stack([(ranks < cut).sum(0) for cut in cuts])
    tails = pointwise(count, cuts / (draws + 1))
    smallest = np.take_along_axis(tails, below, axis=1).min(0)
    return np.clip(1 - _probability_above(smallest, tails, count, cuts / (draws + 1)), 0, 1)


def envelope(count: int, draws: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and largest number of ranks below each cut point, with simultaneous probability 1 - level.

    The limit on the pointwise p-values is the largest of LIMITS values from level / cut points (Bonferroni) to level.
    """
    shares = cut_points(draws) / (draws + 1)
    tails = pointwise(count, shares)
    limits = np.linspace(level / len(shares), level, LIMITS)
    outside = 1 - _probability_above(limits, tails, count, shares)
    inside = tails > limits[outside <= level].max(initial=limits[0])
    return inside.argmax(1), count - inside[:, ::-1].argmax(1)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values adjusted for their number (Holm 1979): rejecting those up to `level` has family-wise error `level`."""
    order = np.argsort(p)
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1)
    return adjusted


def shape_of(ranks: np.ndarray, draws: int) -> str:
    """What the ranks of one parameter say about the draws: the mean and the spread of uniform ranks are known."""
    count, share = len(ranks), (ranks + 0.5) / (draws + 1)
    shift = (share.mean() - 0.5) * np.sqrt(12 * count)
    spread = ((share - 0.5) ** 2).mean() - 1 / 12
    spread *= np.sqrt(180 * count)
    if abs(shift) >= abs(spread):
        return "draws are too small" if shift > 0 else "draws are too large"
    return "draws are too narrow" if spread > 0 else "draws are too wide"


def pointwise(count: int, shares: np.ndarray) -> np.ndarray:
    """Two-sided p-values of 0..count ranks below each cut point, of shape (cut, count + 1)."""
    numbers = np.arange(count + 1)
    below = stats.binom.cdf(numbers, count, shares[:, None])
    above = stats.binom.sf(numbers - 1, count, shares[:, None])
    return 2 * np.minimum(below, above)


def _probability_above(smallest: np.ndarray, tails: np.ndarray, count: int, shares: np.ndarray) -> np.ndarray:
    """The probability that all pointwise p-values exceed each of `smallest`, for uniform ranks."""
    limits = smallest[:, None] * (1 + 1e-9)
    numbers = np.arange(count + 1)
    reached = np.zeros((len(smallest), count + 1))
    reached[:, 0] = 1
    before = 0.0
    for share, tail in zip(shares, tails, strict=True):
        left = count - numbers[:, None]
        moves = stats.binom.pmf(numbers[None] - numbers[:, None], left, (share - before) / (1 - before))
        reached = np.where(tail > limits, reached @ moves, 0)
        before = share
    return reached.sum(1)
