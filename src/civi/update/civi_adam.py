"""The paper's primary update (Algorithm 1): an Adam-like rule without bias correction."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from civi.update.schedule import Schedule


class CiviAdamState(NamedTuple):
    """The step, and the first and second moments m_t and v_t."""

    step: Int[Array, ""]
    m: Any
    v: Any


def civi_adam(
    alpha: Schedule, gamma1: Schedule, one_minus_gamma2: Schedule, xi: float = 1e-8
) -> optax.GradientTransformation:
    """m_t = gamma1_t m_{t-1} + (1 - gamma1_t) grad,  v_t = gamma2_t v_{t-1} + (1 - gamma2_t) grad^2,
    theta_{t+1} = theta_t - alpha_t m_t / (sqrt(v_t) + xi).

    v_1 = C_alpha (1 - gamma1_1)^2 grad^2, so the first step has length sqrt(C_alpha), not C_alpha.

    Args:
        alpha: the step size alpha_t.
        gamma1: the momentum gamma1_t.
        one_minus_gamma2: 1 - gamma2_t, which is accurate in float32 where gamma2_t rounds to 1.
        xi: constant added to sqrt(v_t).
    """

    def init(params: optax.Params) -> CiviAdamState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return CiviAdamState(jnp.asarray(0), zeros, zeros)

    def update(
        gradient: optax.Updates, state: CiviAdamState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, CiviAdamState]:
        step = state.step + 1
        t = jnp.asarray(step, float)
        g1, rest2 = gamma1(t), one_minus_gamma2(t)
        m = jax.tree.map(lambda old, g: g1 * old + (1 - g1) * g, state.m, gradient)
        v = jax.tree.map(lambda old, g: (1 - rest2) * old + rest2 * g**2, state.v, gradient)
        change = jax.tree.map(lambda m, v: -alpha(t) * m / (jnp.sqrt(v) + xi), m, v)
        return change, CiviAdamState(step, m, v)

    return optax.GradientTransformation(init, update)
