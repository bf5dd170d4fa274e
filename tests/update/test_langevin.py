"""The Langevin update of particles: its formula, its noise and the distribution that it converges to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.family import Architecture
from civi.parts import groups, split
from civi.update import FirstOrder, Langevin
from civi.update.langevin import langevin

STEP, TEMPERATURE, MEMORY = 0.1, 0.5, 0.9


def run(rule, particles, gradient_of, steps):
    def body(carry, _):
        particles, state = carry
        change, state = rule.update(gradient_of(particles), state, particles)
        return (particles + change, state), change

    (last, _), changes = jax.jit(lambda p: jax.lax.scan(body, (p, rule.init(p)), None, length=steps))(particles)
    return np.asarray(last), np.asarray(changes)


@pytest.fixture(scope="module")
def particles():
    return 3 * jax.random.normal(jax.random.key(0), (2000, 2))


def test_without_a_gradient_the_particles_become_standard_normal(particles):
    """The chain eps - h l eps + sqrt(2 h l) noise has variance 1 / (1 - h l / 2); without noise it has none."""
    still = lambda particles: jnp.zeros_like(particles)  # noqa: E731
    last, _ = run(langevin(STEP, TEMPERATURE), particles, still, 100)
    expected = 1 / (1 - STEP * TEMPERATURE / 2)
    standard_error = expected * np.sqrt(2 / last.size)
    assert abs(last.var() - expected) < 4.5 * standard_error
    frozen, _ = run(langevin(STEP, 0.0), particles, still, 100)
    assert abs(frozen.var() - expected) > 100 * standard_error


def test_a_step_is_the_preconditioned_gradient_of_each_particle():
    particles = jnp.array([[1.0, -2.0], [0.5, 3.0]])
    gradient = jnp.array([[0.2, -0.1], [0.4, 0.3]])
    _, (first, second) = run(langevin(STEP, 0.0, MEMORY), particles, lambda _: gradient, 2)
    np.testing.assert_allclose(first, -STEP * np.sign(gradient), rtol=1e-4)
    np.testing.assert_allclose(second, first, rtol=1e-4)
    _, (growing, smaller) = run(langevin(STEP, 0.0, MEMORY), particles, lambda p: p**2, 2)
    g, h = 2 * np.asarray(particles) ** 2, 2 * np.asarray(particles + growing) ** 2
    square = (MEMORY * (1 - MEMORY) * g**2 + (1 - MEMORY) * h**2) / (1 - MEMORY**2)
    np.testing.assert_allclose(smaller, -STEP * h / np.sqrt(square), rtol=1e-3)


def test_noise_differs_between_steps_and_between_runs(particles):
    still = lambda particles: jnp.zeros_like(particles)  # noqa: E731
    rule = langevin(STEP, TEMPERATURE)
    noise = [
        run(rule, start, still, 2)[1] + STEP * TEMPERATURE * np.asarray(start) for start in (particles, particles + 1)
    ]
    assert abs(np.corrcoef(noise[0][0].ravel(), noise[0][1].ravel())[0, 1]) < 0.1
    assert abs(np.corrcoef(noise[0][0].ravel(), noise[1][0].ravel())[0, 1]) < 0.1
    again = run(rule, particles, still, 2)[1] + STEP * TEMPERATURE * np.asarray(particles)
    np.testing.assert_array_equal(again, noise[0])


def test_only_particles_move_by_langevin():
    shape = Architecture(mixing="particles", particles=4, hidden=(3,), conditional="diagonal")
    params = split(shape.init(2, jax.random.key(1)))[0]
    update = Langevin(0.1, 0.0, others=FirstOrder("sgd", learning_rate=1.0, decay="constant"))
    rule = update.transformation(groups(params), 10)
    change, _ = rule.update(jax.tree.map(jnp.ones_like, params), rule.init(params), params)
    np.testing.assert_allclose(change.mixing.particles, -0.1, rtol=1e-5)
    np.testing.assert_array_equal(change.conditional.log_scale, -1.0)
    np.testing.assert_array_equal(change.mixing.network.biases[0], -1.0)


def test_a_family_without_particles_is_refused():
    params = split(Architecture(hidden=(3,)).init(2, jax.random.key(1)))[0]
    with pytest.raises(SettingError, match=r"update=langevin moves particles: set family\.mixing=particles"):
        Langevin().transformation(groups(params), 10)
