"""A network with modes: with a constant network, q is a mixture whose density and shares are known exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.estimate import log_density
from civi.family import Architecture, thresholds
from montecarlo import agrees

SHARE, PLACES, SCALE, NOISE = np.array([0.5, 0.3, 0.2]), np.array([-4.0, 0.0, 5.0]), 0.6, 2.0


@pytest.fixture(scope="module")
def family():
    """Modes at PLACES with probabilities SHARE; the network gives 0."""
    shape = Architecture(
        mixing="modal", modes=3, hidden=(4,), noise_dim=2, noise_scale=NOISE, conditional="diagonal", scale=SCALE
    )
    made = shape.init(1, jax.random.key(0))
    made = eqx.tree_at(lambda one: one.mixing.offset_M, made, jnp.asarray(PLACES)[:, None])
    made = eqx.tree_at(lambda one: one.mixing.threshold, made, thresholds(jnp.asarray(SHARE), NOISE))
    return eqx.tree_at(lambda one: one.mixing.network.weights[-1], made, jnp.zeros((4, 1)))


def mixture(z, share):
    return stats.norm.pdf(np.asarray(z), PLACES, SCALE) @ share


def test_the_density_is_that_of_the_mixture(family):
    z_J, count = jnp.linspace(-6, 6, 9)[:, None], 100_000
    found = np.exp(np.asarray(log_density(family, z_J, jax.random.key(1), count), np.float64))
    exact = mixture(z_J, SHARE)
    each = stats.norm.pdf(np.asarray(z_J), PLACES, SCALE)
    error = np.sqrt(((each - exact[:, None]) ** 2 @ SHARE) / count)
    assert (np.abs(found - exact) < 4.5 * error + 1e-5 * exact).all()
    assert (np.abs(found - mixture(z_J, SHARE[::-1])) > 10 * error).any()


def test_draws_belong_to_a_mode_with_its_probability(family):
    eps = family.noise.sample(jax.random.key(2), 20_000)
    inside = np.asarray(family.mixing.mode(eps))[:, None] == np.arange(3)
    assert agrees(inside, SHARE)
    assert not agrees(inside, np.full(3, 1 / 3))


def test_new_families_have_equal_shares_at_different_places():
    made = Architecture(mixing="modal", modes=4, noise_scale=NOISE).init(2, jax.random.key(1))
    np.testing.assert_allclose(stats.norm.cdf(made.mixing.threshold, scale=NOISE), [0.25, 0.5, 0.75], rtol=1e-5)
    assert len(np.unique(np.asarray(made.mixing.offset_M)[:, 0])) == 4


def test_a_family_needs_a_mode():
    with pytest.raises(SettingError, match=r"family\.modes must be at least 1, not 0"):
        Architecture(mixing="modal", modes=0)
