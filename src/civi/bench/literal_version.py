"""A literal implementation of Algorithm 1, the baseline of `civi bench literal`.

It evaluates every pair (z_j, eps_k) separately instead of in one matrix product, applies the encoder to the
concatenated vector [x, eps] of every pair instead of splitting its first layer, and runs a Python loop over jitted
steps that reads the objective after each step instead of compiled blocks. The method, networks and sample sizes are
those of civi with the paper's tracker (extrapolated).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp

from civi.parts import split
from civi.problem.semi_implicit import SemiImplicitProblem

BETA, RATE = 0.5, 1e-3


class Sizes(NamedTuple):
    """Sample sizes: outer is K1, inner is K2 = K3."""

    outer: int
    inner: int


class State(NamedTuple):
    """theta, the optimiser's state and log y of every outer sample."""

    params: Any
    optimiser: Any
    log_y_J: jax.Array


def run(problem: SemiImplicitProblem, sizes: Sizes, steps: int) -> list[float]:
    """Run `steps` steps; the value of the objective after each."""
    params, fixed = split(problem)
    adam, key = optax.adam(RATE), jax.random.key(0)
    outer = problem.draw_outer(key, sizes.outer)
    state = State(params, adam.init(params), log_g(problem, outer, sizes.inner, key, key))
    history = []
    for t in range(steps):
        state, value = _step(state, fixed, outer, sizes.inner, key, jax.random.fold_in(key, t))
        history.append(float(value))
    return history


@eqx.filter_jit
def _step(
    state: State, fixed: Any, outer: Any, inner: int, batch_key: jax.Array, key: jax.Array
) -> tuple[State, jax.Array]:
    inner_key, auxiliary_key = jax.random.split(key)

    def objective(params: Any) -> tuple[jax.Array, jax.Array]:
        log_g_J = log_g(eqx.combine(params, fixed), outer, inner, batch_key, inner_key)
        weight_J = jnp.exp(jax.lax.stop_gradient(log_g_J) - state.log_y_J)
        return (weight_J * log_g_J).mean(), state.log_y_J.mean()

    gradient, value = jax.grad(objective, has_aux=True)(state.params)
    change, optimiser = optax.adam(RATE).update(gradient, state.optimiser)
    params = optax.apply_updates(state.params, change)
    query = jax.tree.map(lambda old, new: (1 - 1 / BETA) * old + new / BETA, state.params, params)
    log_g_J = log_g(eqx.combine(query, fixed), outer, inner, batch_key, auxiliary_key)
    return State(params, optimiser, jnp.logaddexp(jnp.log(1 - BETA) + state.log_y_J, jnp.log(BETA) + log_g_J)), value


def log_g(
    problem: SemiImplicitProblem, outer: Any, inner: int, batch_key: jax.Array, inner_key: jax.Array
) -> jax.Array:
    """log g_j = log mean_k q(z_j | eps_k) - log p(x, z_j)."""
    family, log_prob_each = problem.on_batch(batch_key)
    z_J = family.push(outer)[0]
    mixed = family.mix(family.noise.sample(inner_key, inner))
    over_inner = jax.vmap(family.conditional.log_prob, in_axes=(0, None))
    pairs_JK = jax.vmap(over_inner, in_axes=(None if mixed.ndim == 2 else 0, 0))(mixed, z_J)
    return logsumexp(pairs_JK, axis=1) - jnp.log(inner) - log_prob_each(z_J)
