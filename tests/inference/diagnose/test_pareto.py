"""Pareto smoothing against exact tails, and bit by bit against ArviZ where it is installed."""

import numpy as np
import pytest

from civi.errors import DependencyError
from civi.inference.diagnose.pareto import Tail, fit_tail, pareto_smoothed
from civi.inference.load_arviz import import_arviz

RNG = np.random.default_rng(0)
RATIOS = {
    "normal": RNG.normal(size=4000),
    "heavy": 3 * RNG.standard_cauchy(777),
    "ties": RNG.normal(size=500).round(1),
    "short": RNG.normal(size=12),
    "far": -50 * RNG.exponential(size=100) + 1e4,
    "zeros": np.where(RNG.uniform(size=300) < 0.5, -np.inf, RNG.normal(size=300)),
}


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.4, 0.9])
def test_the_fit_finds_the_shape_and_scale_of_exact_quantiles(shape):
    excesses = Tail(shape, 2.5).quantiles((np.arange(20_000) + 0.5) / 20_000)
    found = fit_tail(excesses)
    assert found.shape == pytest.approx(shape, abs=0.02)
    assert found.scale == pytest.approx(2.5, rel=0.02)


def test_weights_with_a_known_tail_have_its_k_hat():
    """For q = Exponential(1) and p = Exponential(1 - k), p / q is proportional to exp(k x), a Pareto with shape k."""
    x = -np.log1p(-(np.arange(40_000) + 0.5) / 40_000)
    for k in (0.3, 0.6):
        log_weights, k_hat = pareto_smoothed(k * x)
        assert k_hat == pytest.approx(k, abs=0.02)
        assert np.exp(log_weights).sum() == pytest.approx(1)
        assert np.exp(log_weights) @ x == pytest.approx(1 / (1 - k), rel=0.15)


@pytest.mark.parametrize("kind", RATIOS)
def test_weights_are_those_of_arviz_bit_by_bit(kind):
    try:
        expected, k_hat = import_arviz().psislw(RATIOS[kind].copy())
    except DependencyError as error:
        pytest.skip(str(error))
    log_weights, shape = pareto_smoothed(RATIOS[kind])
    np.testing.assert_array_equal(log_weights, expected)
    assert shape == float(k_hat)


def test_too_few_large_weights_are_left_alone():
    log_weights, k_hat = pareto_smoothed(np.log([1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]))
    assert k_hat == np.inf
    np.testing.assert_allclose(np.exp(log_weights), np.array([1, 2, 3, 4, 5, 5, 5, 5, 5, 5]) / 40)
