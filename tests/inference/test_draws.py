"""Draws and log densities of a linear-Gaussian family in a frame, against its exact density."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.inference.diagnose.divergence import with_own
from civi.inference.draws import BLOCK, CHUNK, draw, in_space, weigh
from civi.inference.seeds import derived
from civi.problem.target import Frame, Framed
from linear_gaussian import linear_family, log_q, mean_and_covariance
from montecarlo import agrees, first_and_second_moments

LOCATION, FACTOR = np.array([1.5, -0.5]), np.array([[0.5, 0.0], [-0.8, 0.9]])
VOLUME = np.log(0.45)
WORDS = derived(np.zeros(2, np.uint32), 9)
COUNT, INNER = 2 * CHUNK + 300, 20_000


class Quadratic(eqx.Module):
    """log p(z) = -|z|^2 + 3."""

    dim: int = eqx.field(static=True, default=2)

    def log_prob(self, z):
        return 3 - z @ z


@pytest.fixture(scope="module")
def framed():
    frame = Frame(jnp.asarray(LOCATION, jnp.float32), jnp.asarray(FACTOR, jnp.float32))
    return Framed(Quadratic(), frame, jnp.zeros(()), jnp.zeros(2))


@pytest.fixture(scope="module")
def drawn(framed):
    return draw(linear_family(), framed, WORDS, COUNT)


@pytest.fixture(scope="module")
def weighed(framed, drawn):
    return weigh(linear_family(), framed, WORDS, drawn.w, INNER)


def test_draws_have_the_moments_of_the_family(drawn):
    mean, covariance = (np.asarray(moment, np.float64) for moment in mean_and_covariance(linear_family()))
    second = covariance + np.outer(mean, mean)
    expected = np.concatenate([mean, second[np.triu_indices(2)]])
    assert drawn.w.shape == (COUNT, 2)
    assert agrees(first_and_second_moments(drawn.w), expected)
    assert not agrees(first_and_second_moments(drawn.w), 1.2 * expected)
    np.testing.assert_allclose(drawn.z, LOCATION + drawn.w @ FACTOR.T, rtol=1e-4, atol=1e-5)
    assert len(np.unique(drawn.w, axis=0)) == COUNT, "every chunk has its own noise"


def test_log_densities_are_those_of_z(weighed, drawn):
    np.testing.assert_allclose(weighed.log_p, 3 - (drawn.z.astype(float) ** 2).sum(1), rtol=1e-4, atol=1e-4)
    exact = log_q(linear_family(), drawn.w) - VOLUME
    likely = exact > exact.max() - 2
    assert likely.sum() > COUNT / 3
    np.testing.assert_allclose(weighed.log_q_plain[likely], exact[likely], atol=0.1)
    assert abs((weighed.log_q_plain - exact)[likely].mean()) < 0.01
    fewer = np.abs(weighed.log_q_fewer - exact)[likely].mean()
    assert fewer > 2 * np.abs(weighed.log_q_plain - exact)[likely].mean()
    assert weighed.log_p.dtype == weighed.log_q_plain.dtype == np.float64


def test_both_means_bracket_the_exact_density(weighed, drawn):
    """The plain mean is below log q in expectation, and the mean with the own term is above it."""
    exact = log_q(linear_family(), drawn.w) - VOLUME
    upper = with_own(weighed.log_q_fewer, drawn.own, BLOCK)
    below, above = weighed.log_q_fewer - exact, upper - exact
    assert below.mean() < 3 * below.std() / np.sqrt(COUNT)
    assert above.mean() > -3 * above.std() / np.sqrt(COUNT)
    assert (upper > weighed.log_q_fewer).mean() > 0.5


@pytest.mark.parametrize("count", [1, CHUNK, CHUNK + 7])
def test_any_number_of_points_has_the_same_values(framed, drawn, weighed, count):
    """Points that fill up a chunk do not change the others."""
    few = weigh(linear_family(), framed, WORDS, drawn.w[:count], INNER)
    for some, whole in zip(few, weighed, strict=True):
        np.testing.assert_array_equal(some, whole[:count])
    for some, whole in zip(draw(linear_family(), framed, WORDS, count), drawn, strict=True):
        np.testing.assert_array_equal(some, whole[:count])


def test_another_seed_has_other_draws(framed, drawn):
    assert (draw(linear_family(), framed, derived(WORDS, 1), 5).w != drawn.w[:5]).all()


@pytest.mark.parametrize("count", [1, CHUNK + 7])
def test_points_of_any_number_are_in_the_users_space(drawn, count):
    found = in_space(two_parts, drawn.z[:count])
    np.testing.assert_array_equal(found["a"], drawn.z[:count, 0])
    np.testing.assert_allclose(found["b"], np.exp(drawn.z[:count, 1:]), rtol=1e-5)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(found))


def two_parts(z):
    return {"a": z[0], "b": jnp.exp(z[1:])}
