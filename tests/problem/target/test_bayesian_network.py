"""The Bayesian neural network against the same model written with SciPy, and its mini-batches against all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.problem.target import BayesianNetwork
from civi.problem.target import bayesian_network as module
from montecarlo import agrees

ROWS, INPUTS, HIDDEN = 24, 3, 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(ROWS, INPUTS)), RNG.normal(size=ROWS)


def network(**others) -> BayesianNetwork:
    return BayesianNetwork(jnp.asarray(X, float), jnp.asarray(Y, float), HIDDEN, **others)


def by_scipy(z, jacobian=True, noise_sd=None, weight_sd=None):
    """The log density, unit by unit; without the Jacobian, that of the precisions instead of their logarithms."""
    count = (INPUTS + 2) * HIDDEN + 1
    matrix, rest = z[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN), z[INPUTS * HIDDEN : count]
    bias, last, last_bias = rest[:HIDDEN], rest[HIDDEN:-1], rest[-1]
    predicted = [sum(max(0, x @ matrix[:, h] + bias[h]) * last[h] for h in range(HIDDEN)) + last_bias for x in X]
    latent, total = list(z[count:]), 0.0
    scales = []
    for given in (noise_sd, weight_sd):
        if given is None:
            log_precision = latent.pop(0)
            total += stats.gamma(1, scale=1 / 0.1).logpdf(np.exp(log_precision)) + (log_precision if jacobian else 0)
            given = np.exp(-0.5 * log_precision)
        scales.append(given)
    return total + stats.norm(predicted, scales[0]).logpdf(Y).sum() + stats.norm(0, scales[1]).logpdf(z[:count]).sum()


@pytest.mark.parametrize(
    ("fixed", "dim"), [({}, 23), ({"noise_sd": 0.3, "weight_sd": 5.0}, 21), ({"weight_sd": 2.0}, 22)]
)
def test_density_is_that_of_the_model(fixed, dim):
    target = network(**fixed)
    assert target.dim == dim
    z = np.random.default_rng(1).normal(size=(4, dim))
    found = np.asarray(jax.vmap(target.log_prob)(jnp.asarray(z, float)))
    np.testing.assert_allclose(found, [by_scipy(row, **fixed) for row in z], rtol=1e-4)
    wrong = [by_scipy(row, jacobian=False, **fixed) for row in z]
    assert np.allclose(found, wrong, rtol=1e-3) == (len(fixed) == 2)


def test_mini_batches_are_unbiased():
    target = network()
    z = jnp.asarray(0.3 * np.random.default_rng(2).normal(size=target.dim), float)
    batches = jax.vmap(lambda key: target.batch(key, 5).log_prob(z))(jax.random.split(jax.random.key(0), 2000))
    assert agrees(batches, target.log_prob(z))
    unweighted = BayesianNetwork(target.x, target.y, HIDDEN, weight=1.1)
    assert not agrees(batches, unweighted.log_prob(z))
    again = target.batch(jax.random.key(0), 12).batch(jax.random.key(1), 4)
    assert (again.rows, again.weight) == (4, 6.0)


def test_rows_in_blocks_are_all_rows_at_once(monkeypatch):
    z = jnp.asarray(np.random.default_rng(3).normal(size=23), float)
    whole = network().log_prob(z)
    monkeypatch.setattr(module, "ROWS", 7)
    np.testing.assert_allclose(network().log_prob(z), whole, rtol=1e-5)
