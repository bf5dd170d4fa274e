"""Oracles without noise: all methods against a plain NumPy loop in double precision with hand-written derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.compositional import Oracles, asc_pg, cadam, civi, minimise, nmc, scgd
from civi.update import FirstOrder, Samples

STEPS = 40
START = np.array([0.8, -0.5])
TARGET = np.array([0.2, 0.4, -0.3])
ONE = Samples(1, 1)


def g(theta):
    return np.array([theta[0] ** 2, np.sin(theta[1]), theta[0] * theta[1]])


def jacobian(theta):
    return np.array([[2 * theta[0], 0], [0, np.cos(theta[1])], [theta[1], theta[0]]])


def slope(y):
    return y - TARGET + np.array([0.3 * np.exp(0.3 * y[0]), 0, 0])


NONLINEAR = Oracles(
    lambda theta, key: jnp.array([theta[0] ** 2, jnp.sin(theta[1]), theta[0] * theta[1]]),
    lambda y, key: 0.5 * ((y - TARGET) ** 2).sum() + jnp.exp(0.3 * y[0]),
)


def path(problem, method, steps=STEPS) -> np.ndarray:
    return np.asarray(
        minimise(problem, jnp.asarray(START, float), jax.random.key(1), method, steps, jnp.asarray).measured
    )


def plain_path(primary, beta, extrapolates, steps=STEPS) -> np.ndarray:
    """theta_2, theta_3, ...: `primary(theta, gradient, t)` is the next theta, and beta(t) = 1 makes y = g(theta)."""
    theta, y, thetas = START, g(START), []
    for t in range(1, steps + 1):
        gradient = jacobian(theta).T @ slope(y)
        after, weight = primary(theta, gradient, t), beta(t)
        query = (1 - 1 / weight) * theta + after / weight if extrapolates else after
        y = (1 - weight) * y + weight * g(query)
        theta = after
        thetas.append(theta)
    return np.array(thetas)


def plain_adam(c_alpha, c_gamma, mu):
    moments = {"m": 0.0, "v": 0.0}

    def primary(theta, gradient, t):
        gamma1 = c_gamma * mu**t
        gamma2 = 1 - c_alpha / t**0.4 * (1 - gamma1) ** 2
        moments["m"] = gamma1 * moments["m"] + (1 - gamma1) * gradient
        moments["v"] = gamma2 * moments["v"] + (1 - gamma2) * gradient**2
        return theta - c_alpha / t**0.2 * moments["m"] / (np.sqrt(moments["v"]) + 1e-8)

    return primary


def soft_sgd(theta, gradient, t):
    rate = 0.3 * t ** (-5 / 9)
    aim = theta - rate * gradient
    return np.sign(aim) * np.maximum(abs(aim) - 0.1 * rate, 0) / (1 + 0.2 * rate)


REFERENCE = {
    "scgd": (
        scgd(c_alpha=0.4, samples=ONE),
        lambda: plain_path(lambda x, d, t: x - 0.4 * t**-0.75 * d, lambda t: t**-0.5, extrapolates=False),
    ),
    "asc-pg": (
        asc_pg(c_alpha=0.3, c_beta=0.9, l1=0.1, l2=0.2, samples=ONE),
        lambda: plain_path(soft_sgd, lambda t: 0.9 * t ** (-4 / 9), extrapolates=True),
    ),
    "cadam": (
        cadam(c_alpha=0.03, c_beta=0.3, samples=ONE),
        lambda: plain_path(plain_adam(0.03, 0.9, 0.999), lambda t: 0.3, extrapolates=True),
    ),
    "civi": (
        civi(c_alpha=0.02, c_beta=0.6, c_gamma=0.7, mu=0.99, samples=ONE),
        lambda: plain_path(plain_adam(0.02, 0.7, 0.99), lambda t: 0.6, extrapolates=True),
    ),
    "nmc": (
        nmc(FirstOrder("sgd", 0.1, "constant"), ONE),
        lambda: plain_path(lambda x, d, t: x - 0.1 * d, lambda t: 1.0, extrapolates=False),
    ),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_the_sequence_is_that_of_a_plain_loop(name):
    method, reference = REFERENCE[name]
    np.testing.assert_allclose(path(NONLINEAR, method), reference(), atol=5e-5)


def test_a_loop_without_extrapolation_or_with_another_beta_is_told_apart():
    actual = path(NONLINEAR, REFERENCE["asc-pg"][0])
    at_next = plain_path(soft_sgd, lambda t: 0.9 * t ** (-4 / 9), extrapolates=False)
    slower = plain_path(soft_sgd, lambda t: 0.5 * t ** (-4 / 9), extrapolates=True)
    assert abs(actual - at_next).max() > 5e-3
    assert abs(actual - slower).max() > 5e-4


def test_with_a_linear_inner_function_extrapolation_is_exact_gradient_descent():
    """Then y_t = g(theta_t) in every step, so the method is gradient descent on f(A theta)."""
    matrix = np.array([[1.0, 0.5], [-0.3, 0.8], [0.2, -0.6]])
    linear = Oracles(lambda theta, key: matrix @ theta, lambda y, key: 0.5 * ((y - TARGET) ** 2).sum())
    theta, exact = START, []
    for t in range(1, STEPS + 1):
        theta = theta - 0.3 * t ** (-5 / 9) * matrix.T @ (matrix @ theta - TARGET)
        exact.append(theta)
    np.testing.assert_allclose(path(linear, asc_pg(c_alpha=0.3, samples=ONE)), exact, atol=2e-6)
