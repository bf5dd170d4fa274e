"""The Laplace pilot on Gaussians with known moments, on modes it must find, and on targets it must reject."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

from civi.errors import SettingError, TargetError
from civi.inference.pilot import Laplace
from civi.problem.target import Framed, LogDensity, LogisticRegression

DIM = 12


def frame_of(log_density, dim, **settings):
    """Location and factor found by the pilot, in double precision."""
    framed = Laplace(**settings).look(LogDensity(log_density, dim))
    assert isinstance(framed, Framed)
    return np.asarray(framed.frame.location, np.float64), np.asarray(framed.frame.factor, np.float64)


def correlated(scales, seed=0):
    """A covariance with these standard deviations and random correlations."""
    root = np.random.default_rng(seed).normal(size=(len(scales), 2 * len(scales)))
    covariance = root @ root.T
    scale = scales / np.sqrt(np.diag(covariance))
    return covariance * np.outer(scale, scale)


def gaussian(mean, covariance):
    """The log density of a Gaussian, with constants in double precision."""
    into_units = np.linalg.inv(np.linalg.cholesky(covariance))
    return lambda z: -0.5 * jnp.sum((into_units @ (z - mean)) ** 2)


def test_a_gaussian_of_any_scales_is_exact():
    scales = np.random.default_rng(2).permutation(np.logspace(-3, 3, DIM))
    covariance = correlated(scales)
    mean = 3 * scales * np.random.default_rng(1).normal(size=DIM)
    location, factor = frame_of(gaussian(mean, covariance), DIM)
    into_units = np.linalg.inv(np.linalg.cholesky(covariance))
    assert np.abs((location - mean) / scales).max() < 1e-3
    np.testing.assert_allclose(into_units @ factor @ factor.T @ into_units.T, np.eye(DIM), atol=1e-3)
    np.testing.assert_array_equal(factor, np.tril(factor))
    assert np.diag(factor).min() > 0
    assert not np.allclose(into_units @ np.diag(scales**2) @ into_units.T, np.eye(DIM), atol=0.1)


@pytest.fixture(scope="module")
def regression():
    """60 rows, with columns of scale 0.01, 1 and 100 and an intercept."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(60), rng.normal(size=(60, 3)) * [0.01, 1.0, 100.0]]).astype(np.float32)
    y = rng.uniform(size=60) < special.expit(x @ [0.3, 20.0, 1.0, -0.005])
    return x, y.astype(np.float32)


@pytest.fixture(scope="module")
def framed(regression):
    x, y = regression
    return Laplace().look(LogisticRegression(jnp.asarray(x), jnp.asarray(y)))


def test_a_regression_has_its_mode_at_0_and_unit_curvature_in_the_frame(regression, framed):
    x, y = regression
    location, factor = (np.asarray(array, np.float64) for array in (framed.frame.location, framed.frame.factor))

    def gradient_and_curvature(z):
        probability = special.expit(x.astype(float) @ z)
        weighted = (probability * (1 - probability))[:, None] * x
        return (y - probability) @ x - z / 100, weighted.T @ x + np.eye(4) / 100

    gradient, curvature = gradient_and_curvature(location)
    assert np.abs(factor.T @ gradient).max() < 1e-4
    np.testing.assert_allclose(factor.T @ curvature @ factor, np.eye(4), atol=1e-4)
    found = optimize.root(lambda w: factor.T @ gradient_and_curvature(location + factor @ w)[0], np.zeros(4), tol=1e-10)
    assert np.abs(found.x).max() < 1e-4
    gradient, curvature = gradient_and_curvature(np.zeros(4))
    assert np.abs(factor.T @ gradient).max() > 0.1
    assert not np.allclose(factor.T @ curvature @ factor, np.eye(4), atol=0.1)


def test_what_all_data_say_at_the_location_is_kept(regression, framed):
    x, y = (array.astype(float) for array in regression)
    location, factor = np.asarray(framed.frame.location, np.float64), np.asarray(framed.frame.factor, np.float64)
    logit = x @ location
    log_p = (y * logit - np.logaddexp(0, logit)).sum() + stats.norm(0, 10).logpdf(location).sum()
    slope = (y - special.expit(logit)) @ x - location / 100
    np.testing.assert_allclose(framed.log_p, log_p, rtol=1e-5)
    np.testing.assert_allclose(factor.T @ (np.asarray(framed.slope) - slope), 0, atol=1e-5)


def test_a_start_where_the_log_density_is_convex_leads_to_a_mode():
    """A tilted double well in the first coordinate; 0 is near the saddle, where the second derivative is +8."""

    def two_wells(z):
        return -2 * (z[0] ** 2 - 1) ** 2 + 0.1 * z[0] - 0.5 * z[1] ** 2

    location, factor = frame_of(two_wells, 2)
    roots = np.roots([-8.0, 0.0, 8.0, 0.1])
    np.testing.assert_allclose(location, [roots.real.max(), 0.0], atol=1e-5)
    np.testing.assert_allclose(factor[0, 0] ** -2, 24 * location[0] ** 2 - 8, rtol=1e-4)


def test_a_student_t_far_away_is_found():
    """The start at 0 is 50 scales away. There the heavy tail is convex, and a plain Newton step moves away."""
    mean, degrees = np.array([50.0, -20.0]), 4.0

    def student(z):
        return -0.5 * (degrees + 2) * jnp.log1p(jnp.sum((z - mean) ** 2) / degrees)

    location, factor = frame_of(student, 2)
    np.testing.assert_allclose(location, mean, atol=1e-4)
    np.testing.assert_allclose(factor @ factor.T, degrees / (degrees + 2) * np.eye(2), atol=1e-3)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda z: -0.5 * z @ z + jnp.log(z[0] - 1),
        lambda z: -0.5 * z @ z + jnp.log(z[0]),
        lambda z: jnp.where(z[0] > 1, -0.5 * z @ z, -jnp.inf),
    ],
    ids=["nan with a finite slope", "log at its edge", "-inf by a mask"],
)
def test_a_log_density_without_a_value_at_0_is_refused(log_density):
    with pytest.raises(TargetError, match="no finite mode of the log density: check it at z = 0, or set pilot=none"):
        Laplace().look(LogDensity(log_density, 2))


def test_no_steps_are_refused():
    with pytest.raises(SettingError, match=r"pilot.steps must be at least 1, not 0"):
        Laplace(steps=0)
