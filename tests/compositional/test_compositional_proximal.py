"""The proximal step against closed forms and a grid search, and ASC-PG against a regularised optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from civi.compositional import Oracles, asc_pg, minimise, proximal
from civi.errors import SettingError

POINT = np.array([-2.0, -0.3, 0.0, 0.1, 0.45, 3.0])
UPDATE = np.array([0.5, -0.2, 0.1, -0.4, 0.2, -1.0])


def moved(l1, l2, rate, params=POINT, update=UPDATE) -> np.ndarray:
    transformation = proximal(l1, l2, rate)
    change, _ = transformation.update(jnp.asarray(update), transformation.init(params), jnp.asarray(params))
    return np.asarray(params + change)


def test_l1_is_the_soft_threshold():
    aim = POINT + UPDATE
    expected = np.where(aim > 0.2, aim - 0.2, np.where(aim < -0.2, aim + 0.2, 0.0))
    np.testing.assert_allclose(moved(2.0, 0.0, 0.1), expected, atol=1e-6)


def test_l2_is_shrinkage():
    np.testing.assert_allclose(moved(0.0, 3.0, 0.1), (POINT + UPDATE) / 1.3, atol=1e-6)


def test_both_minimise_the_proximal_objective_on_a_grid():
    l1, l2, rate = 0.7, 1.5, 0.4
    grid = np.linspace(-4, 4, 80_001)
    value = 0.5 * (grid[None] - (POINT + UPDATE)[:, None]) ** 2 + rate * (l1 * abs(grid) + l2 / 2 * grid**2)
    np.testing.assert_allclose(moved(l1, l2, rate), grid[value.argmin(axis=1)], atol=2e-4)


def test_the_rate_follows_a_schedule_of_t_from_1_in_any_pytree():
    update = optax.chain(optax.sgd(lambda count: 0.5 / (count + 1.0)), proximal(0.3, 0.2, lambda t: 0.5 / t))
    theta = {"a": jnp.asarray(1.0), "b": jnp.array([-0.4, 0.05])}
    state, expected = update.init(theta), np.array([1.0, -0.4, 0.05])

    @jax.jit
    def step(theta, state):
        change, state = update.update(jax.tree.map(lambda x: 0.3 * x - 0.1, theta), state, theta)
        return optax.apply_updates(theta, change), state

    for t in range(1, 6):
        theta, state = step(theta, state)
        aim = expected - 0.5 / t * (0.3 * expected - 0.1)
        expected = np.sign(aim) * np.maximum(abs(aim) - 0.15 / t, 0) / (1 + 0.1 / t)
        np.testing.assert_allclose(np.append(theta["a"], theta["b"]), expected, atol=1e-6)


def test_asc_pg_finds_the_regularised_optimum():
    """min |theta - c|^2 / 2 + l1 |theta|_1 + l2/2 |theta|^2 = soft threshold of c by l1, over 1 + l2."""
    target = np.array([1.0, -0.2, 0.6, -2.0], np.float32)
    problem = Oracles(lambda theta, key: theta, lambda y, key: 0.5 * ((y - target) ** 2).sum())
    expected = np.sign(target) * np.maximum(abs(target) - 0.5, 0) / 1.25
    regularised = minimise(problem, jnp.zeros(4), jax.random.key(0), asc_pg(l1=0.5, l2=0.25), steps=2000).theta
    np.testing.assert_allclose(regularised, expected, atol=1e-4)
    assert regularised[1] == 0
    assert abs(regularised - target).min() > 0.1


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match="l1 must not be negative"):
        proximal(-1.0, 0.0, 0.1)
    with pytest.raises(SettingError, match="l2 must not be negative"):
        proximal(0.0, -1.0, 0.1)
    with pytest.raises(SettingError, match="needs the parameters"):
        proximal(1.0, 0.0, 0.1).update(jnp.ones(2), proximal(1.0, 0.0, 0.1).init(jnp.ones(2)))
