"""Trackers follow E[g(theta_t)] while theta drifts: error of log y against the exact log E[g] of the linear case."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate import log_ratios
from civi.solver.base import Model, split
from civi.tracker import Auxiliary, Bank, Extrapolated, Ring, Smoothed, Start
from linear_gaussian import mean_and_covariance

OUTER, INNER, STEPS, SETTLED, RUNS = 32, 30, 30, 15, 16
SLOW, FAST = 0.003, 0.1
NONE_NEW = jnp.zeros(OUTER, bool)
TRACKERS = {"smoothed": Smoothed(0.2), "extrapolated": Extrapolated(0.5), "ring": Ring(0.2), "bank": Bank(10)}


def direction(params: Model):
    """Where theta drifts to: locations first, weights and log scales more slowly."""
    speeds = {"biases": 1.0, "weights": 0.3, "log_scale": 0.1}

    def speed(path, _):
        return next(speeds[name] for name in speeds if name in jax.tree_util.keystr(path))

    return jax.tree_util.tree_map_with_path(speed, params)


def squared_errors(tracker, model: Model, rate, outer, inner_eps):
    """Mean squared error of (log y, log of the fresh mean) over outer samples and settled steps."""
    first, fixed = split(model)

    def at(t):
        return jax.tree.map(lambda leaf, towards: leaf + rate * t * towards, first, direction(first))

    def look(params, eps):
        whole = eqx.combine(params, fixed)
        return log_ratios(whole.family, whole.target.log_prob, outer, eps, jnp.asarray(INNER))

    def step(state, t_and_noise):
        t, (fresh_eps, auxiliary_eps) = t_and_noise
        family, ratios = eqx.combine(at(t), fixed).family, look(at(t), fresh_eps)
        tracked, state = tracker.observe(state, family, ratios, jnp.arange(OUTER))
        state = tracker.refresh(state, Auxiliary(at(t), at(t + 1), NONE_NEW, lambda query: look(query, auxiliary_eps)))
        exact = jax.scipy.stats.multivariate_normal.logpdf(ratios.z_J, *mean_and_covariance(family)) - ratios.log_p_J
        errors = jnp.stack([tracked.log_y_S, ratios.fresh_J]) - exact
        return state, (errors**2).mean(1)

    times = jnp.arange(STEPS + 1, dtype=float)
    start = tracker.init(Start(look(at(times[0]), inner_eps[0, 0]), INNER))
    return jax.lax.scan(step, start, (times[1:], inner_eps[1:]))[1][SETTLED:].mean(0)


@pytest.fixture(scope="module")
def relative_error(linear_model):
    """By tracker and rate of drift: its squared error over that of the fresh mean, both averaged over runs."""
    family = linear_model.family
    outer = jax.tree.map(lambda rows: rows.reshape(RUNS, OUTER, -1), family.draw_outer(jax.random.key(0), RUNS * OUTER))
    inner_eps = family.noise.sample(jax.random.key(1), RUNS * (STEPS + 1) * 2 * INNER)
    noise = outer, inner_eps.reshape(RUNS, STEPS + 1, 2, INNER, -1)

    @eqx.filter_jit
    def errors(tracker):
        runs = jax.vmap(partial(squared_errors, tracker, linear_model), in_axes=(None, 0, 0))
        return jax.vmap(lambda rate: runs(rate, *noise).mean(0))(jnp.array([SLOW, FAST]))

    def ratios(tracker):
        tracked, fresh = np.asarray(errors(tracker)).T
        return dict(zip([SLOW, FAST], tracked / fresh, strict=True))

    return {name: ratios(tracker) for name, tracker in TRACKERS.items()}


@pytest.mark.parametrize("name", sorted(TRACKERS))
def test_while_theta_drifts_slowly_every_tracker_beats_the_fresh_mean(name, relative_error):
    assert relative_error[name][SLOW] < 0.4


def test_while_theta_drifts_slowly_more_smoothing_beats_extrapolation(relative_error):
    assert relative_error["smoothed"][SLOW] < 0.5 * relative_error["extrapolated"][SLOW]


@pytest.mark.parametrize("name", ["smoothed", "ring"])
def test_while_theta_drifts_fast_averages_without_extrapolation_lag_behind(name, relative_error):
    assert relative_error[name][FAST] > 1.5 * relative_error["extrapolated"][FAST]
    assert relative_error[name][FAST] > 3 * relative_error[name][SLOW]
