"""The proximal step of R(theta) = l1 |theta|_1 + l2/2 |theta|_2^2, to be chained after any Optax update."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from civi.errors import require
from civi.update.schedule import Schedule


class ProximalState(NamedTuple):
    """The step, for a learning-rate schedule."""

    step: Int[Array, ""]


def shrink(point: Float[Array, "*shape"], l1: Array | float, l2: Array | float) -> Float[Array, "*shape"]:
    """argmin_x |x - point|^2 / 2 + l1 |x|_1 + l2/2 |x|^2 = sign(point) max(|point| - l1, 0) / (1 + l2)."""
    return jnp.sign(point) * jnp.maximum(jnp.abs(point) - l1, 0) / (1 + l2)


def proximal(l1: float, l2: float, rate: float | Schedule) -> optax.GradientTransformation:
    """Modify an update so that params + change = prox_{rate R}(params + update); chain it after the update.

    Args:
        l1: weight of |theta|_1.
        l2: weight of |theta|_2^2 / 2.
        rate: learning rate of the preceding update: a number, or a schedule of the step t = 1, 2, ...

    Example:
        >>> import jax.numpy as jnp, optax
        >>> from civi.compositional import proximal
        >>> update = optax.chain(optax.sgd(0.1), proximal(l1=1.0, l2=0.0, rate=0.1))
        >>> theta = jnp.array([0.05, 2.0])
        >>> change, _ = update.update(jnp.zeros(2), update.init(theta), theta)
        >>> [round(float(value), 2) for value in theta + change]
        [0.0, 1.9]
    """
    require(l1 >= 0, f"l1 must not be negative, not {l1}")
    require(l2 >= 0, f"l2 must not be negative, not {l2}")

    def init(params: optax.Params) -> ProximalState:
        return ProximalState(jnp.asarray(0))

    def update(
        updates: optax.Updates, state: ProximalState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, ProximalState]:
        require(params is not None, "the proximal step needs the parameters: call update(gradient, state, params)")
        step = state.step + 1
        alpha = rate(jnp.asarray(step, float)) if callable(rate) else rate
        change = jax.tree.map(lambda old, new: shrink(old + new, alpha * l1, alpha * l2) - old, params, updates)
        return change, ProximalState(step)

    return optax.GradientTransformation(init, update)
