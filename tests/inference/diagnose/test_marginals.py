"""The kernel density figure against SciPy's gaussian_kde, and ratios of tails against exact draws."""

import numpy as np
import pytest
from scipy import stats

from civi.inference.diagnose.marginals import kernel_log_density, tail_ratios


def test_the_figure_is_that_of_scipy():
    rng = np.random.default_rng(0)
    draws = rng.normal([0, 3], [1, 0.1], (2000, 2)) + 0.5 * rng.exponential(size=(2000, 1))
    points = rng.normal([0.5, 3.5], [1, 0.3], (100, 2))
    by_scipy = sum(stats.gaussian_kde(draws[:, i]).logpdf(points[:, i]).mean() for i in range(2))
    assert kernel_log_density(draws, points) == pytest.approx(by_scipy, abs=5e-3)
    assert abs(kernel_log_density(1.1 * draws, points) - by_scipy) > 0.05


def test_the_figure_is_largest_for_draws_with_the_right_spread():
    rng = np.random.default_rng(1)
    points, draws = rng.normal(size=(4000, 3)), rng.normal(size=(4000, 3))
    figure = {factor: kernel_log_density(factor * draws, points) for factor in (0.7, 1.0, 1.4)}
    assert figure[1.0] > max(figure[0.7], figure[1.4]) + 0.05
    entropy = 3 * stats.norm.entropy()
    assert figure[1.0] == pytest.approx(-entropy, abs=4.5 * np.sqrt(1.5 / 4000) + 0.02)


def test_tails_of_exact_draws_have_ratio_one_and_lighter_tails_less():
    rng = np.random.default_rng(0)
    exact, light = (tail_ratios(rng.standard_t(freedom, (20_000, 2)), 2.0) for freedom in (2, 5))
    assert list(exact) == ["tail_ratio_50", "tail_ratio_90", "tail_ratio_99", "tail_ratio_99.9"]
    for ratio, count in zip(exact.values(), (20_000, 4_000, 400, 40), strict=True):
        assert ratio == pytest.approx(1, abs=4.5 / np.sqrt(count))
    assert light["tail_ratio_99.9"] < 0.5
