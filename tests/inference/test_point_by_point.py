"""Models that factorise matrices or index many rows are evaluated at a few points at a time, with the same values."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.problem.target import Frame, Framed, log_prob_each
from civi.problem.target.user import user_target

POSITION = np.linspace(0, 1, 4)
Y = np.array([0.3, -0.1, 0.4, 0.9], np.float32)
POINTS = np.random.default_rng(0).normal(size=(5, 2))

SCRIPT = """
import sys, warnings
import jax.numpy as jnp, numpy as np
import civi

position = np.linspace(0, 1, 4)
y = np.array([0.3, -0.1, 0.4, 0.9], np.float32)

def log_density(z):
    covariance = jnp.exp(z[0]) * jnp.exp(-((position[:, None] - position) / 0.5) ** 2) + jnp.exp(z[1]) * jnp.eye(4)
    lower = jnp.linalg.cholesky(covariance)
    white = jnp.linalg.solve(lower, y)
    return -0.5 * white @ white - jnp.log(jnp.diagonal(lower)).sum() - 0.5 * z @ z

warnings.simplefilter("ignore")
fitted = civi.fit(log_density, dim=2, key=0, steps=40, runs=2, progress=False)
print(len(fitted.history["step"]), np.isfinite(fitted.history["neg_elbo"]).all())
"""


def covariance_of(z, numpy=jnp):
    near = numpy.exp(-(((POSITION[:, None] - POSITION) / 0.5) ** 2))
    return numpy.exp(z[0]) * near + numpy.exp(z[1]) * numpy.eye(4)


def gaussian_process(z):
    """The log marginal likelihood of a Gaussian process, and a standard normal prior."""
    lower = jnp.linalg.cholesky(covariance_of(z))
    white = jnp.linalg.solve(lower, Y)
    return -0.5 * white @ white - jnp.log(jnp.diagonal(lower)).sum() - 2 * jnp.log(2 * jnp.pi) - 0.5 * z @ z


@pytest.fixture(scope="module")
def target():
    return user_target(gaussian_process, (), {}, 2, None)[0]


def with_gradient(function, weights):
    """Values, and the gradient of their weighted sum with respect to the points."""
    z = jnp.asarray(POINTS, jnp.float32)
    return jax.jit(lambda z: (function(z), jax.grad(lambda z: weights @ function(z))(z)))(z)


def test_values_and_gradients_are_those_of_all_points_at_once(target):
    assert target.points_at_a_time == 1
    weights = jnp.asarray(np.random.default_rng(1).normal(size=len(POINTS)), jnp.float32)
    values, gradient = with_gradient(log_prob_each(target), weights)
    at_once, gradient_at_once = with_gradient(jax.vmap(target.log_prob), weights)
    exact = [stats.multivariate_normal(np.zeros(4), covariance_of(z, np)).logpdf(Y) - 0.5 * z @ z for z in POINTS]
    np.testing.assert_allclose(values, exact, rtol=1e-4)
    np.testing.assert_allclose(values, at_once, rtol=1e-5)
    np.testing.assert_allclose(gradient, gradient_at_once, rtol=1e-4, atol=1e-5)
    assert not np.allclose(gradient, with_gradient(log_prob_each(target), 1.1 * weights)[1], rtol=1e-2)


def test_in_a_frame_too(target):
    frame = Frame(jnp.array([0.2, -0.3]), jnp.array([[0.5, 0.0], [0.1, 0.8]]))
    framed = Framed(target, frame, jnp.zeros(()), jnp.zeros(2))
    assert framed.points_at_a_time == 1
    weights = jnp.ones(len(POINTS))
    values, gradient = with_gradient(log_prob_each(framed), weights)
    at_once, gradient_at_once = with_gradient(jax.vmap(framed.log_prob), weights)
    np.testing.assert_allclose(values, at_once, rtol=1e-5)
    np.testing.assert_allclose(gradient, gradient_at_once, rtol=1e-4, atol=1e-5)


def test_a_model_that_indexes_many_rows_is_evaluated_a_few_points_at_a_time():
    group = np.random.default_rng(2).integers(3, size=9000)

    def effects(z):
        return -0.5 * (z[group] ** 2).sum()

    few, _ = user_target(effects, (), {}, 3, None)
    assert few.points_at_a_time == 4
    points = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    values, gradient = jax.jit(lambda z: (log_prob_each(few)(z), jax.grad(lambda z: log_prob_each(few)(z).sum())(z)))(
        points
    )
    counts = np.bincount(group, minlength=3)
    np.testing.assert_allclose(values, -0.5 * (points.astype(float) ** 2) @ counts, rtol=1e-4)
    np.testing.assert_allclose(gradient, -points * counts, rtol=1e-4)


def test_a_model_without_factorisations_is_evaluated_at_once():
    target, _ = user_target(lambda z: -0.5 * z @ z, (), {}, 2, None)
    assert target.points_at_a_time is None
    operations = str(jax.make_jaxpr(log_prob_each(target))(jnp.ones((3, 2))))
    assert "scan" not in operations
    assert "while" not in operations


def test_two_threads_train_a_model_with_a_factorisation():
    """The limit of ten minutes only ends a process that waits for ever."""
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["40", "True"]
