"""The paper's update against a NumPy loop of Algorithm 1 with the theorem's schedules, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.update import CiviAdam

STEPS, MU = 20, 0.999
PAPER = {"two-modal": (3e-4, 0.9), "star": (2e-4, 0.9), "banana": (3e-4, 1.0)}
GRADIENTS = np.random.default_rng(0).normal(size=(STEPS, 4)) * np.array([100.0, 1.0, 0.01, 3.0])


def algorithm_1(c_alpha, c_gamma, xi=1e-8):
    """theta_2 .. theta_{T+1}, from theta_1 = 0."""
    theta, m, v, path = np.zeros(4), np.zeros(4), np.zeros(4), []
    for t, gradient in enumerate(GRADIENTS, start=1):
        first = c_gamma * MU**t
        one_minus_second = c_alpha / t ** (2 / 5) * (1 - first) ** 2
        m = first * m + (1 - first) * gradient
        v = (1 - one_minus_second) * v + one_minus_second * gradient**2
        theta = theta - c_alpha / t ** (1 / 5) * m / (np.sqrt(v) + xi)
        path.append(theta)
    return np.array(path)


def path_of(c_alpha, c_gamma):
    rule = CiviAdam(c_alpha=c_alpha, c_gamma=c_gamma, mu=MU).transformation("mixing", STEPS)

    def step(carry, gradient):
        theta, state = carry
        change, state = rule.update(gradient, state)
        return (theta + change, state), theta + change

    start = jnp.zeros(4), rule.init(jnp.zeros(4))
    return jax.lax.scan(step, start, jnp.asarray(GRADIENTS, jnp.float32))[1]


@pytest.mark.parametrize(("c_alpha", "c_gamma"), [(0.1, 0.5), (0.5, 0.9), (0.05, 0.0)])
def test_path_is_that_of_algorithm_1(c_alpha, c_gamma):
    expected = algorithm_1(c_alpha, c_gamma)
    got = path_of(c_alpha, c_gamma)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    assert not np.allclose(got, algorithm_1(c_alpha, c_gamma + 0.05), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("task", sorted(PAPER))
def test_path_is_that_of_algorithm_1_with_the_papers_constants(task):
    np.testing.assert_allclose(path_of(*PAPER[task]), algorithm_1(*PAPER[task]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("task", sorted(PAPER))
def test_first_step_has_length_root_c_alpha(task):
    c_alpha, c_gamma = PAPER[task]
    of_a_large_gradient = path_of(c_alpha, c_gamma)[0][0]
    np.testing.assert_allclose(of_a_large_gradient, -np.sign(GRADIENTS[0][0]) * np.sqrt(c_alpha), rtol=1e-3)
