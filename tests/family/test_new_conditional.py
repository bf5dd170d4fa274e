"""A new conditional is one small class, which works in a family once it is in CONDITIONALS."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats as jax_stats
from scipy import stats

from civi.estimate import log_density
from civi.family import CONDITIONALS, Architecture, Conditional
from montecarlo import agrees

SCALE, NOISE_SCALE = 0.6, 1.4


class Logistic(Conditional):
    """Independent logistic coordinates with one trained scale."""

    log_scale: jax.Array

    @classmethod
    def init(cls, dim, scale):
        return cls(jnp.full(dim, jnp.log(scale)))

    @staticmethod
    def output_gain(dim, spread):
        return jnp.full(dim, spread)

    def draw_base(self, key, count):
        return jax.random.logistic(key, (count, self.log_scale.size))

    def transform(self, mixed, u):
        return mixed + jnp.exp(self.log_scale) * u

    def log_prob(self, mixed, z):
        return jax_stats.logistic.logpdf(z, mixed, jnp.exp(self.log_scale)).sum()

    def log_prob_pairs(self, mixed_K, z_J):
        return jax.vmap(lambda z: jax.vmap(self.log_prob, in_axes=(0, None))(mixed_K, z))(z_J)


@pytest.fixture
def family(monkeypatch):
    monkeypatch.setitem(CONDITIONALS, "logistic", Logistic)
    architecture = Architecture(hidden=(), noise_dim=1, noise_scale=NOISE_SCALE, conditional="logistic", scale=SCALE)
    return architecture.init(1, jax.random.key(0))


def density_by_quadrature(family, z_J, noise_scale):
    """The integral of q(z_j | eps) q(eps) over eps, on a grid."""
    eps = np.linspace(-10, 10, 4001) * noise_scale
    slope = float(family.mixing.weights[0][0, 0])
    return np.trapezoid(
        stats.logistic.pdf(np.asarray(z_J), slope * eps, SCALE) * stats.norm.pdf(eps, scale=noise_scale), eps
    )


def test_its_family_has_the_density_of_the_integral(family):
    z_J = jnp.array([[-3.0], [0.2], [2.0]])
    keys = jax.random.split(jax.random.key(1), 500)
    estimates = np.exp(jax.jit(jax.vmap(lambda key: log_density(family, z_J, key, inner=20, block=20)))(keys))
    exact, of_wider_noise = (
        [density_by_quadrature(family, float(z), scale) for z in z_J[:, 0]]
        for scale in (NOISE_SCALE, 1.1 * NOISE_SCALE)
    )
    assert agrees(estimates, exact)
    assert not agrees(estimates, of_wider_noise)


def test_its_family_draws_with_the_variance_of_the_sum(family):
    squares = np.asarray(family.sample(jax.random.key(2), 20000), np.float64) ** 2
    from_noise = (NOISE_SCALE * float(family.mixing.weights[0][0, 0])) ** 2
    assert agrees(squares, from_noise + SCALE**2 * np.pi**2 / 3)
    assert not agrees(squares, from_noise)
