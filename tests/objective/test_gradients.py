"""The gradients of the pathwise objectives against independent calculations on the linear-Gaussian family."""

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate import Draws
from civi.estimate.fresh import Fresh
from civi.estimate.kernel import Kernel, median
from civi.estimate.player import Training
from civi.estimate.proposal import Reverse
from civi.family import MixingNetwork
from civi.objective import Fisher, KernelPath, KernelStein, PathGradient, ReverseBound
from civi.parts import split
from civi.problem.target import log_prob_each
from linear_gaussian import BIAS, LOG_SCALE, WEIGHT, exact_gradient, gaussian_target, mean_and_covariance
from montecarlo import agrees

OUTER = 48


def flat(tree):
    return jax.flatten_util.ravel_pytree(tree)[0]


def draws_of(family, key, outer=OUTER, inner=4):
    outer_key, inner_key, player_key = jax.random.split(key, 3)
    inner_eps = family.noise.sample(inner_key, inner)
    return Draws(family.draw_outer(outer_key, outer), inner_eps, jnp.asarray(inner), player_key)


def gradient(objective, problem, draws, aid=None):
    """The gradient of a step, with the second player as it starts, unless `aid` is given."""
    params, fixed = split(problem)
    log_p = log_prob_each(problem.target)
    if aid is None:
        player = objective.init(problem.family, draws)
        aid = objective.prepare(player, problem.family, log_p, draws).aid
    return jax.grad(lambda params: objective.surrogate(eqx.combine(params, fixed).family, log_p, draws, aid))(params)


def gradients(objective, problem, runs, aid=None, **sizes):
    def one(key):
        return flat(gradient(objective, problem, draws_of(problem.family, key, **sizes), aid))

    return np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(2), runs)))


def test_the_path_gradient_of_many_inner_samples_is_that_of_the_elbo(linear_model):
    exact = flat(exact_gradient(linear_model))
    assert agrees(gradients(PathGradient(Fresh()), linear_model, 100, inner=2000), exact)
    assert not agrees(gradients(PathGradient(Fresh()), linear_model, 100, inner=2), exact)


def test_the_bound_with_a_reverse_model_has_the_gradient_of_the_elbo_if_there_are_many_draws(linear_model):
    objective = ReverseBound(Reverse(1, (4,)), Training(updates=0))
    exact = flat(exact_gradient(linear_model))
    assert agrees(gradients(objective, linear_model, 40, inner=400), exact)
    assert not agrees(gradients(objective, linear_model, 200, inner=1), exact)


def fisher_divergence(family, target):
    """E_q|s_p - s_q|^2 = tr(A Sigma A) + |P (m - mu)|^2 with A = Sigma^-1 - P, for two Gaussians."""
    mean, covariance = mean_and_covariance(family)
    precision = jnp.linalg.inv(target.covariance)
    apart, shift = jnp.linalg.inv(covariance) - precision, precision @ (target.mean - mean)
    return jnp.trace(apart @ covariance @ apart) + shift @ shift


def best_network(family, target, factor=1.0):
    """f = factor (s_p - s_q), which is linear."""
    mean, covariance = mean_and_covariance(family)
    of_q, of_p = jnp.linalg.inv(covariance), jnp.linalg.inv(target.covariance)
    offset = of_p @ target.mean - of_q @ mean
    return MixingNetwork((factor * (of_q - of_p).T,), (factor * offset,), "relu")


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.5, False)])
def test_the_game_has_the_gradient_of_the_fisher_divergence_if_the_network_plays_best(linear_model, factor, right):
    params, fixed = split(linear_model)
    target = gaussian_target()
    exact = jax.grad(lambda params: fisher_divergence(eqx.combine(params, fixed).family, target))(params)
    network = best_network(linear_model.family, target, factor)
    assert agrees(gradients(Fisher(), linear_model, 200, aid=network), flat(exact)) == right


def test_training_the_network_finds_the_difference_of_the_scores(linear_model):
    family, target = linear_model.family, gaussian_target()
    objective = Fisher((), Training(updates=1500, draws=128, learning_rate=1e-2))
    draws = draws_of(family, jax.random.key(3))
    log_p = log_prob_each(target)
    found = jax.jit(lambda player: objective.prepare(player, family, log_p, draws).aid)(objective.init(family, draws))
    best = best_network(family, target)
    np.testing.assert_allclose(found.weights[0], best.weights[0], atol=0.1)
    assert np.abs(best.weights[0]).max() > 0.3


class InNumpy:
    """The terms of the kernel methods in float64, written from their formulas with explicit sums over pairs."""

    def __init__(self, draws, other):
        self.noise = [tuple(np.asarray(part, np.float64) for part in outer) for outer in (draws.outer, other)]
        target = gaussian_target()
        self.mean, self.precision = np.asarray(target.mean, float), np.linalg.inv(np.asarray(target.covariance, float))

    def terms(self, theta, which):
        """z and f = s_p - s_c of one batch; theta has the weights, the bias and the log scales."""
        weight, bias, log_scale = theta[:6].reshape(3, 2), theta[6:8], theta[8:]
        eps, u = self.noise[which]
        z = eps @ weight + bias + np.exp(log_scale) * u
        return z, (self.mean - z) @ self.precision + u / np.exp(log_scale)

    def kernel(self, x, y, width=None):
        squared = np.array([[((a - b) ** 2).sum() for b in y] for a in x])
        ordered = np.sort(squared, axis=None)
        middle = ordered[(squared.size - 1) // 2] if width is None else width
        return np.exp(-squared / middle * np.log(len(x) + 1)), middle

    def discrepancy(self, theta, width=None):
        (x, f), (y, g) = self.terms(theta, 0), self.terms(theta, 1)
        kernel, _ = self.kernel(x, y, width)
        return np.mean([[kernel[i, j] * f[i] @ g[j] for j in range(len(y))] for i in range(len(x))])

    def slopes(self, theta, width=None):
        """Central differences."""
        step = 1e-5
        moves = step * np.eye(len(theta))
        rises = [self.discrepancy(theta + move, width) - self.discrepancy(theta - move, width) for move in moves]
        return np.array(rises) / (2 * step)


THETA = np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in (WEIGHT, BIAS, LOG_SCALE)])
PAIRS = 8


@pytest.fixture(scope="module")
def case(linear_model):
    draws = draws_of(linear_model.family, jax.random.key(4), outer=PAIRS)
    return draws, InNumpy(draws, linear_model.family.draw_outer(draws.key, PAIRS))


def test_the_kernel_stein_discrepancy_is_differentiated_with_its_median(linear_model, case):
    draws, independent = case
    moving = flat(gradient(KernelStein(), linear_model, draws))
    fixed = flat(gradient(KernelStein(Kernel(moving=False)), linear_model, draws))
    width = independent.kernel(independent.terms(THETA, 0)[0], independent.terms(THETA, 1)[0])[1]
    close = {"rtol": 5e-3, "atol": 2e-4}
    np.testing.assert_allclose(moving, independent.slopes(THETA), **close)
    np.testing.assert_allclose(fixed, independent.slopes(THETA, width), **close)
    assert not np.allclose(fixed, independent.slopes(THETA), **close)


def test_the_kernel_path_gradient_is_the_kernel_mean_of_the_difference(linear_model, case):
    draws, independent = case
    (z, _), (other, stein) = independent.terms(THETA, 0), independent.terms(THETA, 1)
    eps, u = independent.noise[0]

    def expected(kernel):
        direction = -kernel @ stein / len(other)
        scale = (direction * u * np.exp(THETA[8:])).mean(0)
        return np.concatenate([(eps.T @ direction / len(z)).reshape(-1), direction.mean(0), scale])

    found = flat(gradient(KernelPath(), linear_model, draws))
    np.testing.assert_allclose(found, expected(independent.kernel(z, other)[0]), rtol=1e-3, atol=1e-5)
    assert not np.allclose(found, expected(np.ones((len(z), len(other)))), rtol=1e-1)


def test_the_median_is_the_lower_one_and_its_slope_is_at_its_entry():
    values = np.random.default_rng(0).exponential(size=(6, 7)).astype(np.float32)
    found, slope = jax.value_and_grad(median)(jnp.asarray(values))
    assert float(found) == np.sort(values, axis=None)[(values.size - 1) // 2]
    np.testing.assert_array_equal(np.asarray(slope), values == float(found))
    assert float(median(jnp.zeros((3, 3)))) == 0.0
