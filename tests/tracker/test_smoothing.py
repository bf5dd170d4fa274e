"""Smoothed and extrapolated averages against their definition, written out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.tracker import Auxiliary, Extrapolated, Smoothed
from stub_ratios import stub_ratios

INNER, SOME = 8, jnp.arange(3)
OLD = jnp.zeros(3, bool)
VALUES = np.random.default_rng(0).lognormal(sigma=2, size=(6, 3))


def run(tracker, values):
    """The tracker's state after one look per row of values, where the first row is used in `init`."""
    state = tracker.init(stub_ratios(values[0], INNER), INNER)
    for row in values[1:]:
        state = tracker.refresh(state, Auxiliary(0.0, 0.0, OLD, lambda _, row=row: stub_ratios(row, INNER)))
    return state


def tracked(tracker, state, index=SOME):
    return tracker.observe(state, stub_ratios(np.ones(len(index)), INNER), index)[0]


def weights_of_rows(beta, decay, rows):
    """The weight of each row in the last average."""
    weights = np.zeros(rows)
    weights[0] = 1
    for t in range(1, rows):
        beta_t = beta * t**-decay
        weights *= 1 - beta_t
        weights[t] = beta_t
    return weights


@pytest.mark.parametrize("kind", [Smoothed, Extrapolated])
@pytest.mark.parametrize(("beta", "decay"), [(0.5, 0.0), (0.2, 0.0), (1.0, 0.0), (0.9, 0.5)])
def test_average_and_its_size_are_those_of_the_weights(kind, beta, decay):
    tracker = kind(beta, decay)
    got = tracked(tracker, run(tracker, VALUES))
    weights = weights_of_rows(beta, decay, len(VALUES))
    np.testing.assert_allclose(got.y_S, np.log(weights @ VALUES), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got.effective_S, INNER / (weights**2).sum(), rtol=1e-5)


@pytest.mark.parametrize("beta", [0.1, 0.3, 0.9])
def test_effective_size_of_a_long_run_is_the_closed_form(beta):
    tracker = Smoothed(beta)
    got = tracked(tracker, run(tracker, np.ones((80, 3))))
    np.testing.assert_allclose(got.effective_S, INNER * (2 - beta) / beta, rtol=1e-4)


def test_only_the_samples_asked_for_are_given():
    tracker = Smoothed(0.5)
    state = run(tracker, VALUES)
    np.testing.assert_array_equal(
        tracked(tracker, state, jnp.array([2, 0])).y_S, tracked(tracker, state).y_S[jnp.array([2, 0])]
    )


def test_new_samples_begin_afresh_and_old_ones_go_on():
    tracker, new = Smoothed(0.5), jnp.array([False, True, False])
    before = run(tracker, VALUES)
    fresh = np.array([7.0, 8.0, 9.0])
    after = tracker.refresh(before, Auxiliary(0.0, 0.0, new, lambda _: stub_ratios(fresh, 5)))
    old, now = tracked(tracker, before), tracked(tracker, after)
    expected = np.where(new, fresh, 0.5 * np.exp(old.y_S) + 0.5 * fresh)
    np.testing.assert_allclose(now.y_S, np.log(expected), rtol=1e-5)
    size_of_mixture = 1 / (0.25 / np.asarray(old.effective_S) + 0.25 / 5)
    np.testing.assert_allclose(now.effective_S, np.where(new, 5, size_of_mixture), rtol=1e-5)


@pytest.mark.parametrize("lost", [0.0, np.inf, np.nan])
def test_an_average_that_is_not_finite_starts_again_from_the_next_look(lost):
    """Without a restart, log 0 = -inf and NaN would persist; the other entries are unaffected."""
    tracker = Smoothed(0.5)
    with np.errstate(divide="ignore"):
        broken = run(tracker, np.where([False, True, False], lost, VALUES))
    assert not np.isfinite(broken.average.y_J[1])
    restarted, state = tracker.observe(broken, stub_ratios(np.array([7.0, 8.0]), 5), jnp.array([1, 2]))
    whole = run(tracker, VALUES)
    np.testing.assert_allclose(restarted.y_S, [np.log(7.0), whole.average.y_J[2]], rtol=1e-6)
    np.testing.assert_allclose(restarted.effective_S, [5, 1 / whole.average.inverse_size_J[2]], rtol=1e-6)
    after = tracker.refresh(state, Auxiliary(0.0, 0.0, OLD, lambda _: stub_ratios(np.full(3, 2.0), 5)))
    np.testing.assert_allclose(after.average.y_J[1], np.log(0.5 * 7 + 0.5 * 2), rtol=1e-6)
    untouched = tracker.observe(whole, stub_ratios(np.array([7.0, 8.0]), 5), jnp.array([1, 2]))[1]
    jax.tree.map(np.testing.assert_array_equal, untouched, whole)


def test_without_another_look_an_average_that_is_not_finite_stays_so():
    """Only the restart repairs the average; smoothing does not."""
    with np.errstate(divide="ignore"):
        broken = run(Smoothed(0.5), np.vstack([VALUES[:1] * np.inf, VALUES]))
    assert not np.isfinite(broken.average.y_J).any()


@pytest.mark.parametrize(
    ("tracker", "expected"),
    [
        (Smoothed(0.25), [5.0, -3.0]),
        (Extrapolated(0.25), [1 + 4 * 4.0, 1 + 4 * -4.0]),
        (Extrapolated(1.0), [5.0, -3.0]),
        (Extrapolated(0.5, decay=1.0), [1 + 4 * 4.0, 1 + 4 * -4.0]),
    ],
)
def test_second_look_is_at_the_new_or_the_extrapolated_point(tracker, expected):
    asked = []

    def oracle(query):
        asked.append(query)
        return stub_ratios(VALUES[0], INNER)

    state = tracker.init(stub_ratios(VALUES[0], INNER), INNER)
    for _ in range(2):
        state = tracker.refresh(state, Auxiliary(jnp.array([1.0, 1.0]), jnp.array([5.0, -3.0]), OLD, oracle))
    np.testing.assert_allclose(asked[-1], expected, rtol=1e-6)


@pytest.mark.parametrize("kind", [Smoothed, Extrapolated])
@pytest.mark.parametrize(("beta", "decay"), [(0.0, 0.0), (1.1, 0.0), (-0.5, 0.0), (0.5, -1.0)])
def test_impossible_smoothing_is_refused(kind, beta, decay):
    with pytest.raises(SettingError, match=r"tracker.beta must be in|tracker.decay must not be negative"):
        kind(beta, decay)
