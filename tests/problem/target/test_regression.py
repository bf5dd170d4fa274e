"""Logistic regression against SciPy's densities: in blocks of rows, on mini-batches, and at extreme logits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from civi.problem.target import LogisticRegression, regression
from montecarlo import agrees

ROWS, DIM, BATCH = 37, 3, 5


def table(seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(ROWS), rng.normal(size=(ROWS, DIM - 1))]).astype(np.float32)
    return x, rng.integers(2, size=ROWS).astype(np.float32)


X, Y = table()
Z = np.random.default_rng(1).normal(size=(6, DIM)) * 2


def posterior(**settings):
    return of_rows(X, Y, **settings)


def of_rows(x, y, **settings):
    return LogisticRegression(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), **settings)


def values_and_gradients(target, z):
    """One row per z: the log density, then its gradient."""
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(target.log_prob)))(np.asarray(z, np.float32))
    return np.column_stack([value, gradient]).astype(np.float64)


def by_scipy(x, y, z, prior_scale=10.0):
    """The same from SciPy's Bernoulli and normal densities, with the gradient written by hand."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    probability = special.expit(z @ x.T)
    value = stats.bernoulli.logpmf(y, probability).sum(1) + stats.norm(0, prior_scale).logpdf(z).sum(1)
    return np.column_stack([value, (y - probability) @ x - z / prior_scale**2])


@pytest.mark.parametrize("prior_scale", [10.0, 0.7])
def test_density_and_gradient_are_those_of_scipy(prior_scale):
    found = values_and_gradients(posterior(prior_scale=prior_scale), Z)
    np.testing.assert_allclose(found, by_scipy(X, Y, Z, prior_scale), rtol=1e-5, atol=1e-4)
    assert not np.allclose(found, by_scipy(X, 1 - Y, Z, prior_scale), rtol=1e-2, atol=1e-2)
    assert not np.allclose(found, by_scipy(X, Y, Z, np.sqrt(prior_scale)), rtol=1e-2, atol=1e-2)


def test_rows_in_blocks_are_all_rows_at_once(monkeypatch):
    """37 rows make four blocks of 8, with 5 rows left over."""
    at_once = values_and_gradients(posterior(), Z)
    assert "scan" not in str(jax.make_jaxpr(posterior().log_prob)(Z[0]))
    monkeypatch.setattr(regression, "ROWS", 8)
    assert "scan" in str(jax.make_jaxpr(posterior().log_prob)(Z[0]))
    np.testing.assert_allclose(values_and_gradients(posterior(), Z), at_once, rtol=1e-5, atol=1e-4)
    assert not np.allclose(by_scipy(X[:32], Y[:32], Z), at_once, rtol=1e-2, atol=1e-2)


def test_blocks_without_a_rest(monkeypatch):
    monkeypatch.setattr(regression, "ROWS", 12)
    found = values_and_gradients(of_rows(X[:36], Y[:36]), Z)
    np.testing.assert_allclose(found, by_scipy(X[:36], Y[:36], Z), rtol=1e-5, atol=1e-4)


@pytest.fixture(scope="module")
def over_batches():
    """On 4,000 mini-batches: log density and gradient at one z, with and without the weight N/B, and the rows."""
    target, z = posterior(), np.asarray(Z[0], np.float32)

    def one(key):
        batch = target.batch(key, BATCH)
        unweighted = LogisticRegression(batch.x, batch.y)
        return *(jnp.append(*jax.value_and_grad(each.log_prob)(z)) for each in (batch, unweighted)), batch.x

    return [np.asarray(part) for part in jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 4000))]


def test_a_batch_has_no_bias(over_batches):
    exact = by_scipy(X, Y, Z[:1])[0]
    weighted, unweighted, _ = over_batches
    assert agrees(weighted, exact)
    assert not agrees(unweighted, exact)
    assert weighted.std(0).min() > 0.01


def test_every_row_is_as_likely_in_a_batch(over_batches):
    second = over_batches[2][..., 1].ravel()
    counts = (second[:, None] == X[:, 1]).sum(0)
    assert counts.sum() == 4000 * BATCH
    assert stats.chisquare(counts).pvalue > 1e-4
    without_the_last = np.append(counts[:-2], [counts[-2:].sum(), 0])
    assert stats.chisquare(without_the_last).pvalue < 1e-4


def test_a_batch_keeps_the_prior_and_counts_its_rows():
    target = posterior(prior_scale=2.0, weight=3.0)
    batch = eqx.filter_eval_shape(target.batch, jax.random.key(0), BATCH)
    assert (target.rows, batch.rows, batch.dim) == (ROWS, BATCH, DIM)
    assert (batch.weight, batch.prior_scale) == (pytest.approx(3 * ROWS / BATCH), 2.0)


def test_extreme_logits_are_finite_and_exact():
    """The log likelihood is 0 for a label that is almost certain, and minus the absolute logit for the other one."""
    for label in (0.0, 1.0):
        found = values_and_gradients(of_rows([[1.0]], [label], prior_scale=1e6), [[-200.0], [200.0]])
        likelihood = found - [stats.norm(0, 1e6).logpdf(200.0), 0.0]
        expected = [[0.0, 0.0], [-200.0, -1.0]] if label == 0 else [[-200.0, 1.0], [0.0, 0.0]]
        np.testing.assert_allclose(likelihood, expected, atol=1e-3)
