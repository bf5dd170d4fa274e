"""A learning rate that is held and then decays: by its formula, and when the decay is moved during a run."""

import jax.numpy as jnp
import numpy as np
import optax

from civi.update import FirstOrder
from civi.update.hold import decaying, hold


def factors(rule, steps, changes=None):
    """What the updates are multiplied by in each step; `changes` maps a step to another beginning and length."""
    state, found = rule.init(jnp.zeros(2)), []
    for step in range(steps):
        if changes and step in changes:
            state = decaying(state, *changes[step])
        change, state = rule.update(jnp.array([1.0, -2.0]), state)
        np.testing.assert_allclose(change[1], -2 * change[0], rtol=1e-6)
        found.append(float(change[0]))
    return np.array(found)


def cosine(steps, decay_from, decay_steps):
    done = np.clip((np.arange(steps) - decay_from) / decay_steps, 0, 1)
    return (1 + np.cos(np.pi * done)) / 2


def test_it_is_constant_and_then_a_cosine_to_0():
    np.testing.assert_allclose(factors(hold(4, 5), 12), cosine(12, 4, 5), atol=1e-6)
    assert (factors(hold(4, 5), 12)[:5] == 1).all()
    assert not np.allclose(factors(hold(5, 5), 12), cosine(12, 4, 5), atol=1e-3)


def test_the_decay_can_begin_earlier_than_planned():
    np.testing.assert_allclose(factors(hold(100, 100), 12, {3: (3, 6)}), cosine(12, 3, 6), atol=1e-6)
    assert (factors(hold(100, 100), 12) == 1).all()


def test_the_decay_of_a_whole_optimiser_can_be_changed():
    rule = FirstOrder("adam", 0.1, decay="hold", clip=10.0).transformation("all", 1000)
    state, lengths = rule.init(jnp.zeros(1)), []
    for step in range(10):
        if step == 4:
            state = decaying(state, 4, 6)
        change, state = rule.update(jnp.ones(1), state, jnp.zeros(1))
        lengths.append(float(-change[0]))
    np.testing.assert_allclose(lengths, 0.1 * cosine(10, 4, 6), rtol=1e-4, atol=1e-6)
    assert optax.tree.get(state, "decay_from") == 4
