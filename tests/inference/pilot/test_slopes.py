"""log p and its gradient at many points: any number of them, at their degrees of centring, on all rows or on some."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from civi.inference.pilot.slopes import TargetSlopes
from civi.inference.seeds import derived
from civi.problem.target import LogDensity, LogisticRegression
from civi.problem.target.numpyro_model import numpyro_target

RNG = np.random.default_rng(0)
POINTS = 4
QUARTIC = LogDensity(lambda z: -(z**4).sum(), 3)


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_any_number_of_points_has_its_values_and_gradients(count):
    slopes = TargetSlopes(QUARTIC, POINTS)
    z = RNG.normal(size=(count, 3))
    log_p, score = slopes.at(z, np.zeros((count, 0)))
    np.testing.assert_allclose(log_p, -(z**4).sum(1), rtol=1e-5)
    np.testing.assert_allclose(score, -4 * z**3, rtol=1e-4, atol=1e-5)
    several = slopes(np.stack([z, 2 * z]), np.zeros((2, 0)))
    np.testing.assert_allclose(several[0], [-(z**4).sum(1), -16 * (z**4).sum(1)], rtol=1e-5)
    np.testing.assert_allclose(several[1][1], -32 * z**3, rtol=1e-4, atol=1e-4)


def test_every_point_has_its_own_degrees():
    def model():
        mu, tau = numpyro.sample("mu", dist.Normal(0, 1)), numpyro.sample("tau", dist.HalfNormal(1))
        numpyro.sample("theta", dist.Normal(mu, tau).expand([2]))

    target, _ = numpyro_target(model, (), {})
    z, degrees = np.repeat(RNG.normal(size=(1, 4)), 3, axis=0), np.array([[0.0], [1.0], [0.5]])
    log_p, score = TargetSlopes(target, POINTS).at(z, degrees)
    mu, log_tau, *noise = z[0]
    prior = stats.norm.logpdf(mu) + stats.halfnorm.logpdf(np.exp(log_tau)) + log_tau
    centred = prior + stats.norm.logpdf(noise, mu, np.exp(log_tau)).sum()
    np.testing.assert_allclose(log_p[:2], [prior + stats.norm.logpdf(noise).sum(), centred], rtol=1e-5)
    np.testing.assert_allclose(score[0, 2:], -np.array(noise), rtol=1e-5)
    np.testing.assert_allclose(score[1, 2:], (mu - np.array(noise)) * np.exp(-2 * log_tau), rtol=1e-4)
    assert len(np.unique(log_p.round(3))) == 3


def test_a_subsample_is_the_same_at_every_call_and_another_for_another_seed():
    x, y = RNG.normal(size=(60, 2)).astype(np.float32), RNG.integers(2, size=60).astype(np.float32)
    target = LogisticRegression(jnp.asarray(x), jnp.asarray(y))
    z, words = RNG.normal(size=(2, 2)), derived(np.zeros(2, np.uint32), 1)
    first, again, other = (
        TargetSlopes(target, POINTS, 10, seed).at(z, np.zeros((2, 0)))[0]
        for seed in (words, words, derived(np.zeros(2, np.uint32), 2))
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()
    whole = TargetSlopes(target, POINTS).at(z, np.zeros((2, 0)))[0]
    np.testing.assert_allclose(whole, jax.jit(jax.vmap(target.log_prob))(jnp.asarray(z, jnp.float32)), rtol=1e-5)
