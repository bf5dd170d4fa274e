"""The step all methods share: State, Info, init, step.

oracles -> sketch -> gradient -> primary update -> auxiliary update
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.compositional.methods import Method
from civi.compositional.problem import Draws, Problem, Theta
from civi.estimate import Sketch
from civi.update import Samples

KINDS = ("outer", "inner", "auxiliary")
FIRST = 256


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


class Batches(NamedTuple):
    """K1 samples of f, K2 of grad g and K3 of g, and a key for the sketch."""

    outer: Draws
    inner: Draws
    auxiliary: Draws
    sketch_key: PRNGKeyArray


def batches(samples: Samples, t: Float[Array, ""], steps: int, key: PRNGKeyArray) -> Batches:
    """The samples of step t of `steps`, from one split of its key."""
    outer, inner, auxiliary = (samples.most(kind, steps) for kind in KINDS)
    keys = jax.random.split(key, outer + inner + auxiliary + 1)
    return Batches(
        Draws(keys[:outer], samples.at("outer", t, steps)),
        Draws(keys[outer : outer + inner], samples.at("inner", t, steps)),
        Draws(keys[outer + inner : -1], samples.at("auxiliary", t, steps)),
        keys[-1],
    )


def init(problem: Problem, method: Method, theta: Theta, steps: int, key: PRNGKeyArray) -> State:
    """y_1 = g(theta_1) from the run's largest batch, and at least FIRST samples.

    The paper's y_1 = 0 has no logarithm, and a y_1 from a few samples can be so small that the first gradients, which
    are as large as 1/y_1, fill v for the rest of the run.
    """
    parts = method.parts(steps)
    if parts.tracking:
        size = max(FIRST, method.samples.most("auxiliary", steps))
        draws = Draws(jax.random.split(key, size), jnp.asarray(size))
        y_J, calls = problem.inner_mean(theta, draws), draws.kept
    else:
        y_J, calls = jnp.zeros_like(jax.eval_shape(problem.inner, theta, key)), jnp.asarray(0)
    return State(theta, parts.update.init(theta), y_J, calls)


def step(
    problem: Problem, method: Method, state: State, t: Int[Array, ""], steps: int, key: PRNGKeyArray
) -> tuple[State, Info]:
    """Step t of `steps`, undone where it is not finite; then y starts again from the fresh inner mean."""
    time = jnp.asarray(t, float)
    parts, batch = method.parts(steps), batches(method.samples, time, steps, key)

    y_J = state.y_J if parts.tracking else None
    gradient, objective, inner_J = estimate(problem, state.theta, y_J, batch, parts.sketch)
    change, optimiser = parts.update.update(gradient, state.optimiser, state.theta)
    theta = optax.apply_updates(state.theta, change)
    next_y_J, calls = state.y_J, state.calls + batch.outer.kept + batch.inner.kept
    if parts.tracking:
        beta = parts.tracking.beta(time)
        query = parts.tracking.query(state.theta, theta, beta)
        next_y_J = problem.smooth(state.y_J, problem.inner_mean(query, batch.auxiliary), beta)
        calls += batch.auxiliary.kept

    norm = optax.tree.norm(gradient)
    new = State(theta, optimiser, next_y_J, calls)
    good = _finite((new, objective, norm))
    undone = State(state.theta, state.optimiser, jnp.where(_finite(inner_J), inner_J, state.y_J), calls)
    kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, undone)
    return kept, Info(objective, norm, calls, ~good)


def estimate(
    problem: Problem, theta: Theta, y_J: Array | None, batch: Batches, sketch: Sketch
) -> tuple[Theta, Float[Array, ""], Float[Array, " J"]]:
    """The gradient grad g(theta)' grad f(y), the mean of f at y, and the inner mean; y = None: at the inner mean."""
    inner_J, pull_back = jax.vjp(lambda at: problem.inner_mean(at, batch.inner), theta)
    y_J = inner_J if y_J is None else y_J
    objective, slope_J = jax.value_and_grad(problem.outer_mean)(y_J, batch.outer)
    picked = sketch.pick((slope_J != 0).astype(slope_J.dtype), batch.sketch_key)
    slope_S = slope_J[picked.index_S]
    sketched_J = jnp.zeros_like(slope_J).at[picked.index_S].set(jnp.where(slope_S != 0, picked.share_S * slope_S, 0))
    (gradient,) = pull_back(problem.weigh(sketched_J, inner_J, y_J))
    return gradient, objective, inner_J


def _finite(tree: object) -> Bool[Array, ""]:
    floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in floats]).all()
