"""All methods on the mean-variance portfolio, where the optimum and the nested bias have closed forms."""

import jax
import numpy as np
import pytest

from civi.compositional import Result, asc_pg, cadam, civi, minimise, nmc, scgd
from civi.compositional.problems import Portfolio, portfolio
from civi.update import FirstOrder, Samples
from montecarlo import agrees

ASSETS = portfolio()
COVARIANCE = np.asarray(ASSETS.factor, float) @ np.asarray(ASSETS.factor, float).T
OPTIMUM = np.linalg.inv(COVARIANCE) @ np.asarray(ASSETS.mean) / (2 * ASSETS.risk_aversion)
SEEDS = 12


def runs(method, steps, assets=ASSETS) -> list[Result]:
    keys = jax.random.split(jax.random.key(0), SEEDS)
    return [minimise(assets.problem, np.zeros(4, np.float32), key, method, steps) for key in keys]


def thetas(results) -> np.ndarray:
    return np.array([result.theta for result in results])


def test_the_optimum_is_stationary_and_the_error_is_relative():
    np.testing.assert_allclose(ASSETS.optimum(), OPTIMUM, rtol=1e-5)
    value = -ASSETS.mean @ OPTIMUM + ASSETS.risk_aversion * OPTIMUM @ COVARIANCE @ OPTIMUM
    for direction in np.eye(4):
        nearby = OPTIMUM + 0.01 * direction
        assert -ASSETS.mean @ nearby + ASSETS.risk_aversion * nearby @ COVARIANCE @ nearby > value
    np.testing.assert_allclose(ASSETS.error(1.1 * ASSETS.optimum()), 0.1, rtol=1e-5)


@pytest.mark.parametrize(
    ("method", "steps"),
    [(scgd(c_alpha=1.0), 600), (asc_pg(c_alpha=0.5), 600), (cadam(), 600)],
    ids=["scgd", "asc-pg", "cadam"],
)
def test_methods_that_track_reach_the_optimum(method, steps):
    """The mean over the seeds agrees with the optimum within its standard error, and not with the biased solution."""
    found = thetas(runs(method, steps))
    assert agrees(found, OPTIMUM)
    assert not agrees(found, OPTIMUM / 2)
    assert np.linalg.norm(found.mean(axis=0) - OPTIMUM) < 0.1 * np.linalg.norm(OPTIMUM)


def test_civi_reaches_the_optimum_with_the_theorem_s_batches():
    """Each of f, grad g and g is called ceil(t^(4/5)) times in step t, and g 256 times for y_1."""
    results = runs(civi(), 200)
    assert agrees(thetas(results), OPTIMUM)
    batches = np.ceil(np.arange(1, 201) ** 0.8 - 1e-9)
    np.testing.assert_array_equal(results[0].history.oracle_calls, np.cumsum(3 * batches) + 256)


def test_the_wrong_sign_is_noticed():
    """With the sign of the returns flipped, the methods reach -x*, and the comparison with x* fails."""
    turned = Portfolio(-ASSETS.mean, ASSETS.factor, ASSETS.risk_aversion)
    found = thetas(runs(civi(), 200, turned))
    assert agrees(found, -OPTIMUM)
    assert not agrees(found, OPTIMUM)


def test_nested_monte_carlo_with_one_inner_sample_reaches_half_the_optimum():
    """The limit is K/(K + 1) x*. This bias does not vanish, and the tests above would detect it."""
    results = runs(nmc(FirstOrder("sgd", 0.3), Samples(16, 1)), 600)
    assert agrees(thetas(results), OPTIMUM / 2)
    assert not agrees(thetas(results), OPTIMUM)
    np.testing.assert_allclose(ASSETS.nested_optimum(1), OPTIMUM / 2, rtol=1e-5)
    np.testing.assert_array_equal(results[0].history.oracle_calls, 17 * np.arange(1, 601))
