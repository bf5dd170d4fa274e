"""The conditioned diffusion against SciPy, and against quadrature for a path of two steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.experiment.data.diffusion import diffusion_path
from civi.problem.target import ConditionedDiffusion


def log_density(z, observations, step=0.01, strength=10.0, noise=0.1, power=1):
    """The formula with loops; with power 0, the drift is not divided by 1 + u^2."""
    before, total = 0.0, 0.0
    for u in z:
        drift = strength * before * (1 - before**2) / (1 + before**2) ** power
        total += stats.norm(before + step * drift, np.sqrt(step)).logpdf(u)
        before = u
    seen = z[len(z) // len(observations) - 1 :: len(z) // len(observations)]
    return total + stats.norm(seen, noise).logpdf(observations).sum()


def test_density_is_that_of_the_euler_steps_and_the_observations():
    observations = diffusion_path().observations
    target = ConditionedDiffusion(jnp.asarray(observations, float))
    z = np.random.default_rng(0).normal(size=(3, 100)).cumsum(1) / 10
    found = np.asarray(jax.vmap(target.log_prob)(jnp.asarray(z, float)))
    np.testing.assert_allclose(found, [log_density(row, observations) for row in z], rtol=1e-4)
    assert not np.allclose(found, [log_density(row, observations, power=0) for row in z], rtol=1e-3)


def test_density_integrates_to_the_marginal_likelihood_of_an_observation():
    """Two steps, the second observed: p(y) = E[N(y; u_2, noise^2)] over simulated paths."""
    target = ConditionedDiffusion(jnp.array([0.4]), dim=2, step=0.3)
    side = np.linspace(-4, 4, 401)
    grid = jnp.asarray(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2), float)
    integral = float(jnp.exp(jax.vmap(target.log_prob)(grid)).sum()) * (side[1] - side[0]) ** 2
    rng = np.random.default_rng(0)
    first = rng.normal(0, np.sqrt(0.3), 200_000)
    drift = 10 * first * (1 - first**2) / (1 + first**2)
    mean, spread = first + 0.3 * drift, np.sqrt(0.3 + 0.1**2)
    weights = stats.norm(mean, spread).pdf(0.4)
    assert integral == pytest.approx(weights.mean(), abs=4.5 * weights.std() / np.sqrt(len(weights)))
    undamped = stats.norm(first + 0.3 * drift * (1 + first**2), spread).pdf(0.4)
    assert abs(undamped.mean() - integral) > 10 * undamped.std() / np.sqrt(len(undamped))


def test_the_path_has_100_times_and_every_fifth_is_observed():
    data = diffusion_path()
    np.testing.assert_allclose(data.times, 0.01 * np.arange(1, 101))
    np.testing.assert_allclose(data.observed_times, 0.05 * np.arange(1, 21))
    errors = data.observations - data.path[4::5]
    assert 0.05 < errors.std() < 0.15
