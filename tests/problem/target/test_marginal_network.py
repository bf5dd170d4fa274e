"""The network without its output layer against dense Gaussian algebra in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.problem.target import MarginalNetwork, check_batch
from civi.problem.target import marginal_network as module

ROWS, INPUTS, HIDDEN, WEIGHT_SD = 24, 3, 4, 1.5
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(ROWS, INPUTS)), RNG.normal(size=ROWS), RNG.normal(size=(5, INPUTS))
Z = RNG.normal(size=(4, (INPUTS + 1) * HIDDEN + 1))


def network() -> MarginalNetwork:
    return MarginalNetwork(jnp.asarray(X, float), jnp.asarray(Y, float), HIDDEN, WEIGHT_SD)


def covariance(z, first, second, weight_sd=WEIGHT_SD):
    """The prior covariance of f(first) and f(second) given W and b: the output layer is Gaussian."""
    matrix, bias = z[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN), z[INPUTS * HIDDEN : -1]
    left, right = (np.column_stack([np.maximum(0, x @ matrix + bias), np.ones(len(x))]) for x in (first, second))
    return weight_sd**2 * left @ right.T


def by_scipy(z, **others):
    """log p(y | W, b, gamma) as one Gaussian of all rows, and the priors."""
    of_rows = covariance(z, X, X, **others) + np.exp(-z[-1]) * np.eye(ROWS)
    log_likelihood = stats.multivariate_normal(np.zeros(ROWS), of_rows).logpdf(Y)
    log_prior = stats.norm(0, WEIGHT_SD).logpdf(z[:-1]).sum() + stats.gamma(1, scale=10).logpdf(np.exp(z[-1])) + z[-1]
    return log_likelihood + log_prior


def test_density_is_the_integral_over_the_output_layer():
    target = network()
    assert target.dim == Z.shape[1]
    found = np.asarray(jax.vmap(target.log_prob)(jnp.asarray(Z, float)))
    np.testing.assert_allclose(found, [by_scipy(z) for z in Z], rtol=1e-4)
    assert not np.allclose(found, [by_scipy(z, weight_sd=1.1 * WEIGHT_SD) for z in Z], rtol=1e-3)


def test_units_that_are_nearly_alike_do_not_spoil_single_precision():
    z = Z[0].copy()
    matrix, bias = z[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN), z[INPUTS * HIDDEN : -1]
    matrix[:], bias[:], z[-1] = matrix[:, :1] * (1 + 1e-5 * np.arange(HIDDEN)), 3.0, 12.0
    point = jnp.asarray(z, float)
    features = network().features(point, network().x)
    plain = jnp.linalg.cholesky(jnp.exp(point[-1]) * features.T @ features + WEIGHT_SD**-2 * jnp.eye(HIDDEN + 1))
    assert not np.isfinite(plain).all()
    value, slope = jax.value_and_grad(network().log_prob)(point)
    np.testing.assert_allclose(value, by_scipy(z), rtol=1e-3)
    step = 1e-4 * np.eye(len(z))[-1]
    np.testing.assert_allclose(slope[-1], (by_scipy(z + step) - by_scipy(z - step)) / 2e-4, rtol=1e-2)


def test_the_gradient_is_that_of_the_density_in_double_precision():
    slope = np.asarray(jax.grad(network().log_prob)(jnp.asarray(Z[1], float)))
    steps = 1e-5 * np.eye(len(Z[1]))
    expected = [(by_scipy(Z[1] + step) - by_scipy(Z[1] - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(slope, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


def test_predictions_average_the_output_layer_and_the_noise():
    mean, sd = jax.vmap(lambda z: network().predictive(z, jnp.asarray(NEW, float)))(jnp.asarray(Z, float))
    for z, mean_N, sd_N in zip(Z, np.asarray(mean), np.asarray(sd), strict=True):
        of_rows = covariance(z, X, X) + np.exp(-z[-1]) * np.eye(ROWS)
        gain = np.linalg.solve(of_rows, covariance(z, X, NEW)).T
        variance = np.diag(covariance(z, NEW, NEW) - gain @ covariance(z, X, NEW)) + np.exp(-z[-1])
        np.testing.assert_allclose(mean_N, gain @ Y, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(sd_N, np.sqrt(variance), rtol=1e-3)
        assert np.all(sd_N > np.exp(-0.5 * z[-1]))


def test_rows_in_blocks_are_all_rows_at_once(monkeypatch):
    whole = network().log_prob(jnp.asarray(Z[0], float))
    monkeypatch.setattr(module, "ROWS", 7)
    np.testing.assert_allclose(network().log_prob(jnp.asarray(Z[0], float)), whole, rtol=1e-5)


def test_mini_batches_are_refused():
    with pytest.raises(SettingError, match="rows of data over which its log density is a sum"):
        check_batch(network(), 10)
