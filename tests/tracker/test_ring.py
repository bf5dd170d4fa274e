"""The ring against its definition y_t = (1 - beta) y_{t-1} + beta g_t, used in the same step."""

import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.tracker import Auxiliary, Extrapolated, Ring
from stub_ratios import stub_ratios

INNER, BETA = 8, 0.3
ALL, NONE_NEW = jnp.arange(4), jnp.zeros(4, bool)
VALUES = np.random.default_rng(1).lognormal(sigma=4, size=(12, 4))


def start(tracker):
    return tracker.init(stub_ratios(np.full(4, 123.0), INNER), INNER)


def observe(tracker, state, values, index=ALL):
    return tracker.observe(state, stub_ratios(values, INNER), index)


def refresh(tracker, state, new, values):
    return tracker.refresh(state, Auxiliary(0.0, 0.0, new, lambda _: stub_ratios(values, INNER)))


def weights(tracker):
    """The weights g_t / y_t of every step."""
    state, weights = start(tracker), []
    for row in VALUES:
        tracked, state = observe(tracker, state, row)
        weights.append(row / np.exp(np.asarray(tracked.y_S, np.float64)))
        state = refresh(tracker, state, NONE_NEW, row[::-1])
    return np.array(weights)


def test_average_starts_with_the_first_value_seen_and_counts_its_samples():
    ring, expected, inverse_size = Ring(BETA), VALUES[0], 1 / INNER
    tracked, state = observe(ring, start(ring), VALUES[0])
    np.testing.assert_allclose(tracked.y_S, np.log(expected), rtol=1e-5, atol=1e-6)
    for row in VALUES[1:]:
        tracked, state = observe(ring, state, row)
        expected = (1 - BETA) * expected + BETA * row
        inverse_size = (1 - BETA) ** 2 * inverse_size + BETA**2 / INNER
        np.testing.assert_allclose(tracked.y_S, np.log(expected), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(tracked.effective_S, 1 / inverse_size, rtol=1e-5)
    assert 1 / inverse_size == pytest.approx(INNER * (2 - BETA) / BETA, rel=0.01)


def test_weights_never_exceed_one_over_beta_where_the_extrapolated_trackers_do():
    assert weights(Ring(BETA)).max() <= (1 + 1e-5) / BETA
    assert weights(Extrapolated(BETA)).max() > 10 / BETA


def test_new_samples_begin_afresh_when_they_are_next_seen():
    ring = Ring(BETA)
    _, state = observe(ring, start(ring), VALUES[0])
    state = refresh(ring, state, jnp.array([False, True, False, True]), VALUES[3])
    tracked, state = observe(ring, state, VALUES[1][:3], jnp.arange(3))
    mixed = (1 - BETA) * VALUES[0] + BETA * VALUES[1]
    np.testing.assert_allclose(tracked.y_S, np.log([mixed[0], VALUES[1][1], mixed[2]]), rtol=1e-5, atol=1e-6)
    tracked, _ = observe(ring, state, VALUES[2])
    again = (1 - BETA) * np.array([mixed[0], VALUES[1][1], mixed[2]]) + BETA * VALUES[2][:3]
    np.testing.assert_allclose(tracked.y_S, np.log([*again, VALUES[2][3]]), rtol=1e-5, atol=1e-6)


def test_samples_that_are_not_picked_keep_their_average():
    ring = Ring(BETA)
    _, state = observe(ring, start(ring), VALUES[0])
    _, after = observe(ring, state, VALUES[1][:2], jnp.array([3, 1]))
    kept = np.array([0, 2])
    np.testing.assert_array_equal(after.average.y_J[kept], state.average.y_J[kept])
    expected = (1 - BETA) * VALUES[0][[3, 1]] + BETA * VALUES[1][:2]
    np.testing.assert_allclose(after.average.y_J[jnp.array([3, 1])], np.log(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 1.1])
def test_impossible_rings_are_refused(beta):
    with pytest.raises(SettingError, match=r"tracker.beta must be in \(0, 1\]"):
        Ring(beta)
