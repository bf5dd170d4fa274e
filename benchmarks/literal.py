"""CI-VI written down as Algorithm 1 reads: what `civi bench literal` is measured against.

Every pair (z_j, eps_k) by itself instead of one matrix product, the encoder on the joined vector [x, eps] for every
pair instead of a split first layer, a Python loop over jitted steps that looks at the objective after each instead of
compiled blocks. Method, networks and sample sizes are those of civi with the paper's tracker (extrapolated).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp

from civi.problem.target import log_prob_each
from civi.solver import Model
from civi.solver.base import split

BETA, RATE = 0.5, 1e-3


class Sizes(NamedTuple):
    """K1, K2 = K3, and the rows of data a step sees (0: all)."""

    outer: int
    inner: int
    batch: int


class State(NamedTuple):
    """theta, the optimiser's state and log y of every outer sample."""

    params: Model
    optimiser: Any
    log_y_J: jax.Array


def run(model: Model, sizes: Sizes, steps: int) -> list[float]:
    """`steps` steps; the objective after each."""
    params, fixed = split(model)
    adam, key = optax.adam(RATE), jax.random.key(0)
    outer = model.family.draw_outer(key, sizes.outer)
    state = State(params, adam.init(params), _log_g(params, fixed, outer, sizes, key, key))
    history = []
    for t in range(steps):
        state, value = _step(state, fixed, outer, sizes, key, jax.random.fold_in(key, t))
        history.append(float(value))
    return history


@eqx.filter_jit
def _step(
    state: State, fixed: Model, outer: Any, sizes: Sizes, batch_key: jax.Array, key: jax.Array
) -> tuple[State, jax.Array]:
    inner_key, auxiliary_key = jax.random.split(key)

    def objective(params: Model) -> tuple[jax.Array, jax.Array]:
        log_g_J = _log_g(params, fixed, outer, sizes, batch_key, inner_key)
        weight_J = jnp.exp(jax.lax.stop_gradient(log_g_J) - state.log_y_J)
        return (weight_J * log_g_J).mean(), state.log_y_J.mean()

    gradient, value = jax.grad(objective, has_aux=True)(state.params)
    change, optimiser = optax.adam(RATE).update(gradient, state.optimiser)
    params = optax.apply_updates(state.params, change)
    query = jax.tree.map(lambda old, new: (1 - 1 / BETA) * old + new / BETA, state.params, params)
    log_g_J = _log_g(query, fixed, outer, sizes, batch_key, auxiliary_key)
    return State(params, optimiser, jnp.logaddexp(jnp.log(1 - BETA) + state.log_y_J, jnp.log(BETA) + log_g_J)), value


def _log_g(params: Model, fixed: Model, outer: Any, sizes: Sizes, batch_key: jax.Array, key: jax.Array) -> jax.Array:
    """log g_j = log mean_k q(z_j | eps_k) - log p(x, z_j)."""
    family, target = eqx.combine(params, fixed).on_batch(batch_key, sizes.batch)
    z_J = family.push(outer)[0]
    mixed = family.mix(family.noise.sample(key, sizes.inner))
    over_inner = jax.vmap(family.conditional.log_prob, in_axes=(0, None))
    pairs_JK = jax.vmap(over_inner, in_axes=(None if mixed.ndim == 2 else 0, 0))(mixed, z_J)
    return logsumexp(pairs_JK, axis=1) - jnp.log(sizes.inner) - log_prob_each(target, z_J)
