"""Trackers follow E[g(theta_t)] while theta drifts: log y against the exact log E[g] of the linear-Gaussian case."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from civi.estimate import log_ratios
from civi.parts import split
from civi.problem import PosteriorProblem
from civi.tracker import Auxiliary, Bank, Extrapolated, Ring, Smoothed
from linear_gaussian import mean_and_covariance

OUTER, INNER, STEPS, SETTLED, RUNS = 32, 30, 30, 15, 16
SLOW, FAST = 0.003, 0.1
NONE_NEW = jnp.zeros(OUTER, bool)
TRACKERS = {"smoothed": Smoothed(0.2), "extrapolated": Extrapolated(0.5), "ring": Ring(0.2), "bank": Bank(10)}


def direction(params: PosteriorProblem):
    """Direction of the drift of theta: biases move fastest, weights and log scales more slowly."""
    speeds = {"biases": 1.0, "weights": 0.3, "log_scale": 0.1}

    def speed(path, _):
        return next(speeds[name] for name in speeds if name in jax.tree_util.keystr(path))

    return jax.tree_util.tree_map_with_path(speed, params)


def squared_errors(problem: PosteriorProblem, rate, outer, inner_eps):
    """Mean squared error of log y for every tracker and for the fresh mean, over outer samples and later steps."""
    first, fixed = split(problem)

    def at(t):
        return jax.tree.map(lambda leaf, towards: leaf + rate * t * towards, first, direction(first))

    def look(params, eps):
        whole = eqx.combine(params, fixed)
        return log_ratios(whole.family, jax.vmap(whole.target.log_prob), outer, eps, jnp.asarray(INNER))

    def step(states, t_and_noise):
        t, (fresh_eps, auxiliary_eps) = t_and_noise
        family, ratios = eqx.combine(at(t), fixed).family, look(at(t), fresh_eps)
        auxiliary = Auxiliary(at(t), at(t + 1), NONE_NEW, lambda query: look(query, auxiliary_eps))
        log_y, after = {"fresh": ratios.fresh_J}, {}
        for name, tracker in TRACKERS.items():
            tracked, observed = tracker.observe(states[name], ratios, jnp.arange(OUTER))
            log_y[name], after[name] = tracked.y_S, tracker.refresh(observed, auxiliary)
        exact = jax.scipy.stats.multivariate_normal.logpdf(ratios.z_J, *mean_and_covariance(family)) - ratios.log_p_J
        return after, {name: ((values - exact) ** 2).mean() for name, values in log_y.items()}

    times = jnp.arange(STEPS + 1, dtype=float)
    start = look(at(times[0]), inner_eps[0, 0])
    states = {name: tracker.init(start, INNER) for name, tracker in TRACKERS.items()}
    errors = jax.lax.scan(step, states, (times[1:], inner_eps[1:]))[1]
    return jax.tree.map(lambda values: values[SETTLED:].mean(), errors)


@pytest.fixture(scope="module")
def relative_error(linear_model):
    """Squared error relative to the fresh mean, by rate of drift and tracker, averaged over runs."""
    family = linear_model.family
    outer = jax.tree.map(lambda rows: rows.reshape(RUNS, OUTER, -1), family.draw_outer(jax.random.key(0), RUNS * OUTER))
    inner_eps = family.noise.sample(jax.random.key(1), RUNS * (STEPS + 1) * 2 * INNER)
    noise = outer, inner_eps.reshape(RUNS, STEPS + 1, 2, INNER, -1)

    @jax.jit
    def at_rate(rate):
        errors = jax.lax.map(lambda run: squared_errors(linear_model, rate, *run), noise)
        return {name: values.mean() for name, values in errors.items()}

    found = {rate: at_rate(jnp.asarray(rate)) for rate in (SLOW, FAST)}
    return {rate: {name: float(errors[name] / errors["fresh"]) for name in TRACKERS} for rate, errors in found.items()}


@pytest.mark.parametrize("name", sorted(TRACKERS))
def test_while_theta_drifts_slowly_every_tracker_beats_the_fresh_mean(name, relative_error):
    assert relative_error[SLOW][name] < 0.4


def test_while_theta_drifts_slowly_more_smoothing_beats_extrapolation(relative_error):
    assert relative_error[SLOW]["smoothed"] < 0.5 * relative_error[SLOW]["extrapolated"]


@pytest.mark.parametrize("name", ["smoothed", "ring"])
def test_while_theta_drifts_fast_averages_without_extrapolation_lag_behind(name, relative_error):
    assert relative_error[FAST][name] > 1.5 * relative_error[FAST]["extrapolated"]
    assert relative_error[FAST][name] > 3 * relative_error[SLOW][name]
