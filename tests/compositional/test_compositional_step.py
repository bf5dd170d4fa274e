"""Parts of a step with noise: growing batches, log space, the sketch, keys, pytrees, and non-finite values."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.compositional import Oracles, cadam, minimise, scgd
from civi.estimate import Sketch
from civi.objective.compositional import ChainRule
from civi.parts import split
from civi.problem import OracleProblem
from civi.problem.base import Inner
from civi.solver import CompositionalSolver
from civi.tracker import Pool, Smoothed
from civi.update import FirstOrder, Samples
from montecarlo import agrees

CENTRE = np.array([0.3, -0.2, 0.5, 0.1], np.float32)
ZEROS = np.zeros(4, np.float32)
NO_SKETCH = Sketch()
METHOD, STEPS = cadam(samples=Samples(2, 3, 2)), 30


def noise(key):
    """Uniform in [0, 1) from the bits of the key, which compiles faster than a call of jax.random."""
    return jax.random.key_data(key)[0].astype(float) / 2.0**32


def positive(theta, key):
    """A positive inner function with multiplicative noise."""
    return jnp.exp(theta) * (0.5 + noise(key) * CENTRE)


def outer(y, key):
    return ((y - CENTRE * noise(key)) ** 2).sum() + y[0] * y[1]


LINEAR = Oracles(positive, outer)
LOG = Oracles(lambda theta, key: jnp.log(positive(theta, key)), lambda log_y, key: outer(jnp.exp(log_y), key), True)


def run(problem=LINEAR, theta_1=ZEROS, seed=3, method=METHOD, steps=STEPS):
    return minimise(problem, theta_1, jax.random.key(seed), method, steps)


def gradient_at(oracles, theta, y_J, size=1, sketch=NO_SKETCH):
    """The gradient at theta and y as a function of the key: what a step of rate 1 with `size` samples subtracts."""
    sgd = FirstOrder("sgd", learning_rate=1.0, decay="constant")
    parts = {"tracker": Smoothed(0.5), "objective": ChainRule(), "sketch": sketch, "update": sgd}
    solver = CompositionalSolver(samples=Samples(size, size), pool=Pool(draw="uniform"), **parts)
    problem = OracleProblem(jnp.asarray(theta), oracles)
    start = solver.init(problem, jax.random.key(9))
    average = start.tracker.average._replace(y_J=jnp.asarray(y_J))
    start = start._replace(tracker=start.tracker._replace(average=average))

    def gradient(key):
        return theta - solver.step(split(problem)[1], start, jnp.asarray(1), key)[0].params.theta

    return gradient


def test_a_mean_counts_only_the_first_samples():
    @jax.jit
    def means_and_samples(centre, key):
        seven = Inner(jax.random.split(key, 7), 7, jnp.asarray(3))
        means = (
            LINEAR.inner_mean(centre, seven),
            jnp.exp(LOG.inner_mean(centre, seven)),
            LINEAR.outer_mean(centre, seven),
        )
        return means, jax.lax.map(lambda one: (positive(centre, one), outer(centre, one)), seven.key)

    (inner, from_log, mean_outer), (each_inner, each_outer) = means_and_samples(CENTRE, jax.random.key(2))
    np.testing.assert_allclose(inner, np.asarray(each_inner)[:3].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(from_log, np.asarray(each_inner)[:3].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(mean_outer, np.asarray(each_outer)[:3].mean(), rtol=1e-6)


def test_log_space_gives_the_same_numbers():
    np.testing.assert_allclose(run(LINEAR).theta, run(LOG).theta, rtol=1e-4)
    np.testing.assert_allclose(run(LINEAR).history.objective, run(LOG).history.objective, rtol=1e-3)


def test_log_space_survives_values_that_underflow():
    """log E exp(-1000 + (theta - c)^2 + noise): the inner mean is 0 in float32, its logarithm is not."""
    far = Oracles(
        lambda theta, key: -1000 + (theta - 0.7) ** 2 + 0.1 * noise(key),
        lambda log_y, key: log_y.sum(),
        log_scale=True,
    )
    result = run(far, np.zeros(1, np.float32), method=scgd(samples=Samples(1, 4)), steps=300)
    assert abs(result.theta[0] - 0.7) < 0.01
    assert result.skipped == 0


def test_the_gradient_is_that_of_the_product_of_means():
    """grad g(theta)' grad f(y) from the Jacobian and the slope of every sample."""
    y_J = np.array([0.5, 1.5, 1.0, 2.0], np.float32)

    @jax.jit
    def gradient_and_samples(key):
        keys = jax.random.split(key, 5 + 5 + 5 + 1)
        slopes = jax.lax.map(lambda one: jax.grad(outer)(y_J, one), keys[:5])
        jacobians = jax.lax.map(lambda one: jax.jacobian(positive)(CENTRE, one), keys[5:10])
        return gradient_at(LINEAR, CENTRE, y_J, 5)(key), slopes, jacobians

    gradient, slopes, jacobians = gradient_and_samples(jax.random.key(4))
    slopes, jacobians = np.asarray(slopes), np.asarray(jacobians)
    np.testing.assert_allclose(gradient, jacobians.mean(axis=0).T @ slopes.mean(axis=0), rtol=1e-5)
    paired = np.einsum("kji,kj->i", jacobians, slopes) / 5
    assert not np.allclose(gradient, paired, rtol=1e-3)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_sketched_gradient_is_unbiased(form):
    """y has 6 entries, f depends on 4, and a sketch keeps 2: the mean over sketches is the full gradient."""
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)), float)
    coefficient = np.array([1.0, -2.0, 0.0, 0.5, 0.0, 1.5])
    problem = Oracles(lambda theta, key: matrix @ theta, lambda y, key: coefficient @ y)

    gradient = gradient_at(problem, np.ones(3, np.float32), np.zeros(6, np.float32), sketch=Sketch(form, 2))
    gradients = np.asarray(jax.jit(jax.vmap(gradient))(jax.random.split(jax.random.key(0), 4000)))
    expected = np.asarray(matrix).T @ coefficient
    assert agrees(gradients, expected)
    assert not agrees(gradients, expected * 2 / 6)
    terms = np.asarray(matrix) * coefficient[:, None]
    kept = [i for i in range(6) if form == "dense" or coefficient[i]]
    pairs = [len(kept) / 2 * (terms[i] + terms[j]) for i in kept for j in kept if i < j]
    assert all(min(abs(one - pair).max() for pair in pairs) < 1e-4 for one in gradients[:50])


def test_a_sketch_of_nothing_is_a_zero_gradient():
    flat = Oracles(lambda theta, key: theta, lambda y, key: 0 * y.sum())
    ones = np.ones(3, np.float32)
    sketched = jax.jit(gradient_at(flat, ones, ones, sketch=Sketch("sparse", 2)))
    np.testing.assert_array_equal(sketched(jax.random.key(0)), np.zeros(3))


def test_the_key_decides_the_numbers():
    one, same, other = run(seed=0), run(seed=0), run(seed=1)
    np.testing.assert_array_equal(one.theta, same.theta)
    np.testing.assert_array_equal(one.history.objective, same.history.objective)
    assert abs(one.theta - other.theta).min() > 0


def test_any_pytree_is_minimised_like_its_flat_vector():
    def joined(tree):
        return jnp.append(tree["a"].ravel(), tree["b"][0])

    nested = Oracles(lambda tree, key: positive(joined(tree), key), outer)
    result = run(nested, {"a": np.zeros((1, 3), np.float32), "b": (np.zeros((), np.float32),)})
    np.testing.assert_allclose(joined(result.theta), run().theta, rtol=1e-5)
    assert result.theta["a"].shape == (1, 3)


def test_steps_that_are_not_finite_are_undone():
    """An inner function that is NaN for one sample in ten: 1 - 0.9^2 of the steps are undone, the others converge."""

    def broken(theta, key):
        return jnp.where(noise(key) < 0.1, jnp.nan, 1.0) * theta

    problem = Oracles(broken, lambda y, key: 0.5 * ((y - CENTRE) ** 2).sum())
    result = run(problem, method=scgd(samples=Samples(1, 1)), steps=1000)
    expected, sd = 1000 * (1 - 0.9**2), math.sqrt(1000 * 0.9**2 * (1 - 0.9**2))
    assert abs(int(result.skipped) - expected) < 4.5 * sd
    np.testing.assert_allclose(result.theta, CENTRE, atol=0.01)


def test_where_every_step_fails_theta_1_is_kept():
    problem = Oracles(lambda theta, key: jnp.log(theta), lambda y, key: y.sum())
    theta_1 = np.array([-1.0, -2.0], np.float32)
    result = run(problem, theta_1)
    np.testing.assert_array_equal(result.theta, theta_1)
    assert result.skipped == STEPS
