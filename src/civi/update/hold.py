"""A learning rate that is constant, and then decays to 0; when the decay begins can still be changed during a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int


class HoldState(NamedTuple):
    """The number of updates so far, the update at which the decay begins, and how many updates the decay takes."""

    count: Int[Array, ""]  # type: ignore[assignment]
    decay_from: Int[Array, ""]
    decay_steps: Int[Array, ""]


def hold(decay_from: int, decay_steps: int) -> optax.GradientTransformation:
    """Multiply updates by 1, and from `decay_from` on by (1 + cos(pi (count - decay_from) / decay_steps)) / 2.

    Both numbers are part of the state, so that `decaying` can change them during a run.

    Args:
        decay_from: the update at which the decay begins.
        decay_steps: number of updates of the decay.
    """

    def init(params: optax.Params) -> HoldState:
        return HoldState(jnp.asarray(0), jnp.asarray(decay_from), jnp.asarray(decay_steps))

    def update(
        updates: optax.Updates, state: HoldState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, HoldState]:
        factor = _factor(state)
        return jax.tree.map(lambda change: factor * change, updates), state._replace(count=state.count + 1)

    return optax.GradientTransformation(init, update)


def decaying(optimiser: optax.OptState, decay_from: int, decay_steps: int) -> Any:
    """The state of an optimiser with `hold` in it, with another beginning and length of the decay."""
    return optax.tree.set(optimiser, decay_from=np.int32(decay_from), decay_steps=np.int32(decay_steps))


def _factor(state: HoldState) -> Float[Array, ""]:
    done = (state.count - state.decay_from) / jnp.maximum(state.decay_steps, 1)
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip(done, 0.0, 1.0)))
