"""How well the marginals of draws agree with reference draws: kernel density estimates and quantiles."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.stats import t as student_t

GRID, WIDTH = 4096, 12.0
LEVELS = (0.5, 0.9, 0.99, 0.999)


def kernel_log_density(draws: np.ndarray, points: np.ndarray) -> float:
    """The mean over `points` of sum_d log k_d(z_d), where k_d is the kernel density estimate of coordinate d.

    The kernel is Gaussian with Scott's bandwidth, sd N^(-1/5). Only the marginals enter: the figure says nothing about
    the dependence between coordinates. It is largest, up to Monte Carlo error, if the draws have the marginals of the
    points.

    Args:
        draws: draws to judge, of shape (N, dim).
        points: points at which the density is evaluated, such as reference draws, of shape (M, dim).
    """
    total = np.zeros(len(points))
    for one, at in zip(draws.T.astype(np.float64), points.T.astype(np.float64), strict=True):
        centre, sd = one.mean(), one.std(ddof=1)
        height, edges = np.histogram((one - centre) / sd, GRID, (-WIDTH, WIDTH))
        cell = edges[1] - edges[0]
        smooth = gaussian_filter1d(height.astype(float), len(one) ** -0.2 / cell, truncate=8.0, mode="constant")
        density = np.interp((at - centre) / sd, (edges[1:] + edges[:-1]) / 2, smooth / (len(one) * cell * sd))
        total += np.log(np.maximum(density, np.finfo(float).tiny))
    return float(total.mean())


def tail_ratios(draws: np.ndarray, freedom: float) -> dict[str, float]:
    """Quantiles of |t| over all entries, divided by those of Student's t; 1 is exact, below 1 the tail is too light.

    Args:
        draws: draws of vectors whose entries should have independent Student t distributions, of shape (N, dim).
        freedom: degrees of freedom.

    Returns:
        The ratio at each of LEVELS, as tail_ratio_50, tail_ratio_90, tail_ratio_99 and tail_ratio_99.9.
    """
    found = np.quantile(np.abs(draws), LEVELS)
    exact = student_t.ppf(0.5 + 0.5 * np.array(LEVELS), freedom)
    return {f"tail_ratio_{100 * level:g}": float(ratio) for level, ratio in zip(LEVELS, found / exact, strict=True)}
