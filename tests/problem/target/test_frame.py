"""A framed target is the same density in other coordinates, on all rows and on a mini-batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.inference.diagnose import log_q
from civi.problem.target import Frame, Framed, LogisticRegression, batch_of, check_batch, outward, two_modal
from linear_gaussian import gaussian_target, linear_family
from linear_gaussian import log_q as exact_log_q
from montecarlo import agrees

LOCATION = np.array([1.5, -0.5])
FACTOR = np.array([[0.5, 0.0], [-0.8, 0.9]])
W = np.random.default_rng(0).normal(size=(9, 2)) * 2
ROWS, BATCH = 40, 6


def framed(target):
    """The target in the frame z = LOCATION + FACTOR w."""
    location = jnp.asarray(LOCATION, jnp.float32)
    log_p, slope = jax.jit(jax.value_and_grad(target.log_prob))(location)
    return Framed(target, Frame(location, jnp.asarray(FACTOR, jnp.float32)), log_p, slope)


def value_and_gradient(target, w):
    return np.append(*jax.jit(jax.value_and_grad(target.log_prob))(np.asarray(w, np.float32)))


@pytest.fixture(scope="module")
def gaussian():
    return framed(gaussian_target())


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, 2)), rng.integers(2, size=ROWS)
    return LogisticRegression(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))


def test_density_in_the_frame_is_the_density_there_times_the_volume(gaussian):
    target = gaussian.target
    found = np.asarray(jax.jit(jax.vmap(gaussian.log_prob))(np.asarray(W, np.float32)), np.float64)
    normal = stats.multivariate_normal(np.asarray(target.mean, float), np.asarray(target.covariance, float))
    there = normal.logpdf(LOCATION + W @ FACTOR.T) + target.log_constant
    np.testing.assert_allclose(found, there + np.log(np.linalg.det(FACTOR)), rtol=1e-5, atol=1e-4)
    assert not np.allclose(found, there, atol=0.1)
    transposed = normal.logpdf(LOCATION + W @ FACTOR) + target.log_constant
    assert not np.allclose(found, transposed + np.log(np.linalg.det(FACTOR)), atol=0.1)


def test_inward_undoes_outward(gaussian):
    frame = gaussian.frame
    z = frame.outward(jnp.asarray(W, jnp.float32))
    np.testing.assert_allclose(z, LOCATION + W @ FACTOR.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(frame.inward(z), W, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(frame.outward(jnp.asarray(W[0], jnp.float32)), z[0], rtol=1e-6)


def test_draws_go_outward_only_where_there_is_a_frame(gaussian):
    w = jnp.asarray(W, jnp.float32)
    np.testing.assert_array_equal(outward(gaussian.target, w), w)
    np.testing.assert_allclose(outward(gaussian, w), LOCATION + W @ FACTOR.T, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def in_frame(regression):
    return framed(regression)


@pytest.fixture(scope="module")
def over_batches(regression, in_frame):
    """log p and gradient at W[0] and at the frame's origin, on many mini-batches and on all rows.

    Returns the values on mini-batches with the control variate, without it, and on all rows.
    """
    points = jnp.asarray([W[0], [0.0, 0.0]], jnp.float32)

    def look(target):
        value, gradient = jax.vmap(jax.value_and_grad(target.log_prob))(points)
        return jnp.column_stack([value, gradient])

    def one(key):
        alone = Framed(regression.batch(key, BATCH), in_frame.frame, in_frame.log_p, in_frame.slope)
        return look(in_frame.batch(key, BATCH)), look(alone)

    keys = jax.random.split(jax.random.key(1), 4000)
    return jax.tree.map(np.asarray, jax.jit(lambda keys: (*jax.vmap(one)(keys), look(in_frame)))(keys))


def test_a_batch_in_a_frame_has_no_bias_and_less_noise(over_batches):
    anchored, plain, exact = over_batches
    assert agrees(anchored[:, 0], exact[0])
    assert not agrees(anchored[:, 0], 1.1 * exact[0])
    assert (anchored[:, 0].std(0) < 0.8 * plain[:, 0].std(0)).all()


def test_a_batch_in_a_frame_is_exact_at_its_location(over_batches):
    anchored, plain, exact = over_batches
    assert np.abs(anchored[:, 1] - exact[1]).max() < 1e-3
    assert (np.abs(plain[:, 1] - exact[1]).mean(0) > 0.1).all()


def test_batch_of_passes_on_and_refuses(regression, in_frame):
    key = jax.random.key(0)
    assert (regression.rows, in_frame.rows, in_frame.dim) == (ROWS, ROWS, 2)
    toy = Framed(two_modal(), in_frame.frame, in_frame.log_p, in_frame.slope)
    assert toy.rows == 0
    assert all(batch_of(target, key, None) is target for target in (in_frame, toy))
    batch = eqx.filter_eval_shape(batch_of, in_frame, key, ROWS)
    assert (batch.dim, batch.target.target.rows, batch.target.target.weight) == (2, ROWS, 1.0)
    for whole in (regression, in_frame):
        with pytest.raises(SettingError, match=r"problem.batch \(41\) is larger than the data \(40 rows\)"):
            check_batch(whole, ROWS + 1)
    for without_rows in (two_modal(), toy):
        with pytest.raises(SettingError, match=r"problem.batch needs a target with rows of data"):
            check_batch(without_rows, 1)


def test_density_of_q_is_one_in_the_targets_coordinates(gaussian):
    """The mean over any inner samples integrates to 1; without the Jacobian of the frame it would be |det| = 0.45."""
    family, centre = linear_family(), LOCATION + FACTOR @ [0.5, -0.3]
    sides = [np.linspace(middle - 7, middle + 7, 100) for middle in centre]
    z = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    area = np.prod([side[1] - side[0] for side in sides])
    found = np.asarray(log_q(family, gaussian, jnp.asarray(z, jnp.float32), 1000), np.float64)
    assert np.exp(found).sum() * area == pytest.approx(1, abs=2e-3)
    assert np.exp(found + np.log(0.45)).sum() * area < 0.5
    exact = exact_log_q(family, np.linalg.solve(FACTOR, (z - LOCATION).T).T) - np.log(0.45)
    likely = exact > exact.max() - 3
    assert likely.sum() > 100
    np.testing.assert_allclose(found[likely], exact[likely], atol=0.3)
    assert np.abs((found - exact)[likely].mean()) < 0.05
