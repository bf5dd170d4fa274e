"""The Gaussian pilot finds modes where its first starts do not lead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.pilot import Gaussian, gaussian
from civi.target import LogDensity


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def two_modes(z):
    """N(0, 1) and N(9, 1) with equal weights: all of (-2, 2) leads to 0."""
    return jnp.logaddexp(-0.5 * z @ z, -0.5 * (z - 9) @ (z - 9)) - jnp.log(2)


def locations(count):
    return np.array([guess.location[0] for guess in Gaussian().guesses(LogDensity(two_modes, 1))[:count]])


def test_wider_starts_find_a_mode_outside_of_the_first_starts():
    assert len(locations(8)) == 8
    assert np.abs(locations(4)).max() < 2
    assert np.abs(locations(8) - 9).min() < 0.5


def test_starts_that_are_not_wide_miss_it(monkeypatch):
    monkeypatch.setattr(gaussian, "WIDER", 0.1)
    assert np.abs(locations(8) - 9).min() > 2
