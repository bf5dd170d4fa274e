"""Particles as mixing: the density is an exact mean, and each particle has the gradient of the KL divergence."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.estimate import Draws, log_density
from civi.estimate.fresh import Fresh
from civi.estimate.reverse import Hmc
from civi.family import Architecture
from civi.objective import PathGradient
from civi.parts import groups, split
from civi.problem import PosteriorProblem
from civi.problem.target import LogDensity, log_prob_each
from montecarlo import agrees

COUNT, GRID = 5, np.linspace(-12, 12, 6001)
TARGET = LogDensity(lambda z: -0.5 * (z[0] - 0.7) ** 2 / 1.4, dim=1)


@pytest.fixture(scope="module")
def problem():
    shape = Architecture(
        mixing="particles", particles=COUNT, hidden=(4,), noise_dim=2, conditional="diagonal", scale=0.8, spread=2.0
    )
    return PosteriorProblem(shape.init(1, jax.random.key(0)), TARGET)


def mixture(family):
    """The centres and the standard deviation of the components."""
    centres = family.mix(jnp.arange(COUNT, dtype=float)[:, None])[:, 0]
    return np.asarray(centres, np.float64), float(jnp.exp(family.conditional.log_scale[0]))


def density(family, z):
    centres, scale = mixture(family)
    return stats.norm.pdf(np.asarray(z)[:, None], centres, scale).mean(1)


def test_the_density_is_the_mean_over_the_particles(problem):
    z_J = jnp.linspace(-3, 3, 7)[:, None]
    exact = np.log(density(problem.family, z_J[:, 0]))
    for key, inner in ((1, COUNT), (2, 40 * COUNT)):
        found = log_density(problem.family, z_J, jax.random.key(key), inner, block=2 * COUNT)
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    assert not np.allclose(log_density(problem.family, z_J, jax.random.key(1), COUNT - 1), exact, atol=1e-2)


def test_draws_hold_every_particle_equally_often(problem):
    eps = problem.family.noise.sample(jax.random.key(3), 3 * COUNT)
    assert sorted(np.bincount(np.asarray(eps[:, 0], int)).tolist()) == [3] * COUNT
    first = {float(problem.family.noise.sample(jax.random.key(key), 1)[0, 0]) for key in range(40)}
    assert len(first) == COUNT


def test_particles_are_a_group_of_their_own(problem):
    named = groups(split(problem)[0]).family
    assert named.mixing.particles == "particles"
    assert set(jax.tree.leaves(named.mixing.network)) == {"mixing"}


def kl_slopes(problem):
    """Derivatives of E_q[log q - log p] with respect to the particles: quadrature and central differences."""

    def value(particles):
        family = eqx.tree_at(lambda one: one.mixing.particles, problem.family, jnp.asarray(particles, jnp.float32))
        q = density(family, GRID)
        return np.trapezoid(q * (np.log(q) + 0.5 * (GRID - 0.7) ** 2 / 1.4), GRID)

    start, step = np.asarray(problem.family.mixing.particles, np.float64), 1e-2
    slopes = np.zeros_like(start)
    for index in np.ndindex(*start.shape):
        move = np.zeros_like(start)
        move[index] = step
        slopes[index] = (value(start + move) - value(start - move)) / (2 * step)
    return slopes


@pytest.mark.parametrize(("own", "right"), [(False, True), (True, False)])
def test_each_particle_has_the_gradient_of_the_divergence(problem, own, right):
    """With all particles as inner samples the score is exact; one more of the own particle would count it twice."""
    objective = PathGradient(Fresh(own))
    params, fixed = split(problem)
    family, log_p = problem.family, log_prob_each(TARGET)

    def one(key):
        outer_key, inner_key = jax.random.split(key)
        inner_eps = family.noise.sample(inner_key, COUNT)
        draws = Draws(family.draw_outer(outer_key, 100), inner_eps, jnp.asarray(COUNT), key)
        score_J = objective.prepare((), family, log_p, draws).aid
        at = lambda params: objective.surrogate(eqx.combine(params, fixed).family, log_p, draws, score_J)  # noqa: E731
        return jax.grad(at)(params).family.mixing.particles

    keys = jax.random.split(jax.random.key(4), 400)
    found = np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(keys))
    assert agrees(found, kl_slopes(problem)) == right


def test_methods_that_move_the_noise_refuse_particles(problem):
    with pytest.raises(SettingError, match=r"needs continuous noise: set family\.mixing=network"):
        Hmc().init(problem.family, None)


def test_a_number_of_particles_below_one_is_refused():
    with pytest.raises(SettingError, match=r"family\.particles must be at least 1, not 0"):
        Architecture(mixing="particles", particles=0)
