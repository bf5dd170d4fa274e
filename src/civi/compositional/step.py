"""The step all methods share: State, Info, init, step.

oracles -> sketch -> gradient -> primary update -> auxiliary update
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.compositional.methods import Method, Tracking
from civi.compositional.problem import Count, Problem, Theta, count
from civi.estimate import Sketch
from civi.update import Samples


class State(NamedTuple):
    """theta_t, the moments of its update, y_t (or log y_t), and the calls of f and g so far."""

    theta: Theta
    optimiser: optax.OptState
    y_J: Float[Array, " J"]
    calls: Int[Array, ""]


class Info(NamedTuple):
    """Of one step: the mean of f at y_t, the gradient's norm, calls of f and g so far, whether it was undone."""

    objective: Float[Array, "*steps"]
    gradient_norm: Float[Array, "*steps"]
    oracle_calls: Int[Array, "*steps"]
    skipped: Bool[Array, "*steps"]


class Sizes(NamedTuple):
    """K1, K2 and K3 of a step."""

    outer: Count
    inner: Count
    auxiliary: Count


def sizes(samples: Samples, t: Float[Array, ""], steps: int) -> Sizes:
    """The batches of step t."""
    return Sizes(*(count(samples, kind, t, steps) for kind in Sizes._fields))


def init(problem: Problem, method: Method, theta: Theta, steps: int, key: PRNGKeyArray) -> State:
    """y_1 = g(theta_1) from the run's largest batch: the paper's y_1 = 0 has no logarithm, and a y_1 from the first
    step's few samples can be so small that its gradient fills v for the rest of the run.
    """
    parts = method.parts(steps)
    largest = sizes(method.samples, jnp.asarray(float(steps)), steps).auxiliary
    if parts.tracking:
        y_J, calls = problem.inner_mean(theta, largest, key), largest.kept
    else:
        y_J, calls = jnp.zeros_like(jax.eval_shape(problem.inner, theta, key)), jnp.asarray(0)
    return State(theta, parts.update.init(theta), y_J, calls)


def step(
    problem: Problem, method: Method, state: State, t: Int[Array, ""], steps: int, key: PRNGKeyArray
) -> tuple[State, Info]:
    """Step t of `steps`, undone where it is not finite; then y starts again from the fresh inner mean."""
    gradient_key, auxiliary_key = jax.random.split(key)
    time = jnp.asarray(t, float)
    parts, size = method.parts(steps), sizes(method.samples, time, steps)

    y_J = state.y_J if parts.tracking else None
    gradient, objective, inner_J = estimate(problem, state.theta, y_J, size, parts.sketch, gradient_key)
    change, optimiser = parts.update.update(gradient, state.optimiser, state.theta)
    theta = optax.apply_updates(state.theta, change)
    calls = state.calls + size.outer.kept + size.inner.kept
    next_y_J = state.y_J
    if parts.tracking:
        next_y_J = _auxiliary(problem, parts.tracking, state, theta, time, size.auxiliary, auxiliary_key)
        calls += size.auxiliary.kept

    norm = optax.global_norm(gradient)
    new = State(theta, optimiser, next_y_J, calls)
    good = _finite((new, objective, norm))
    undone = State(state.theta, state.optimiser, jnp.where(_finite(inner_J), inner_J, state.y_J), calls)
    kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, undone)
    return kept, Info(objective, norm, calls, ~good)


def estimate(
    problem: Problem, theta: Theta, y_J: Array | None, size: Sizes, sketch: Sketch, key: PRNGKeyArray
) -> tuple[Theta, Float[Array, ""], Float[Array, " J"]]:
    """The gradient grad g(theta)' grad f(y), the mean of f at y, and the inner mean; y = None: at the inner mean."""
    outer_key, inner_key, sketch_key = jax.random.split(key, 3)
    inner_J, pull_back = jax.vjp(lambda at: problem.inner_mean(at, size.inner, inner_key), theta)
    y_J = inner_J if y_J is None else y_J
    objective, slope_J = jax.value_and_grad(problem.outer_mean)(y_J, size.outer, outer_key)
    picked = sketch.pick((slope_J != 0).astype(slope_J.dtype), sketch_key)
    sketched_J = jnp.zeros_like(slope_J).at[picked.index_S].set(picked.share_S * slope_J[picked.index_S])
    (gradient,) = pull_back(problem.weigh(sketched_J, inner_J, y_J))
    return gradient, objective, inner_J


def _auxiliary(
    problem: Problem,
    tracking: Tracking,
    state: State,
    theta: Theta,
    time: Float[Array, ""],
    size: Count,
    key: PRNGKeyArray,
) -> Float[Array, " J"]:
    """y_{t+1} from the inner mean at the query point."""
    beta = tracking.beta(time)
    query = tracking.query(state.theta, theta, beta)
    return problem.smooth(state.y_J, problem.inner_mean(query, size, key), beta)


def _finite(tree: object) -> Bool[Array, ""]:
    floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in floats]).all()
