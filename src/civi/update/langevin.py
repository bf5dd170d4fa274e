"""Langevin update of particles (PVI): a preconditioned gradient step with noise, for the group "particles"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PRNGKeyArray

from civi.errors import require
from civi.settings import check_settings, self_checking
from civi.update.rules import FirstOrder

GROUP = "particles"


class LangevinState(NamedTuple):
    """The key of a run, the number of updates, and the running mean of squared gradients."""

    key: PRNGKeyArray
    count: Int[Array, ""]  # type: ignore[assignment]
    square: Any


def langevin(
    step_size: float, temperature: float, memory: float = 0.9, xi: float = 1e-8
) -> optax.GradientTransformation:
    """eps <- eps - h [G grad + lambda eps] + sqrt(2 h lambda) noise, with G = 1 / (sqrt(running mean of grad^2) + xi).

    The objective is a mean over M particles, so grad is M times the derivative with respect to a particle. Update t
    draws its noise from fold_in(key, t). The key is made of the initial particles, which every run draws for itself.

    Args:
        step_size: the step size h.
        temperature: lambda, the weight of the entropy of the particles and of the standard normal they are drawn to.
        memory: weight of the past in the running mean.
        xi: added to the square root.
    """

    def init(params: optax.Params) -> LangevinState:
        total = sum(leaf.sum() for leaf in jax.tree.leaves(params))
        seed = jax.lax.bitcast_convert_type(jnp.asarray(total, jnp.float32), jnp.int32)
        return LangevinState(jax.random.key(seed), jnp.asarray(0), jax.tree.map(jnp.zeros_like, params))

    def update(
        gradient: optax.Updates, state: LangevinState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, LangevinState]:
        count = state.count + 1
        key, unbiased = jax.random.fold_in(state.key, count), 1 - memory**count
        each = jax.tree.map(lambda g: len(g) * g, gradient)
        square = jax.tree.map(lambda old, g: memory * old + (1 - memory) * g**2, state.square, each)

        def move(g: Array, square: Array, eps: Array) -> Array:
            drift = g / (jnp.sqrt(square / unbiased) + xi) + temperature * eps
            noise = jax.random.normal(key, eps.shape, eps.dtype)
            return -step_size * drift + jnp.sqrt(2 * step_size * temperature) * noise

        return jax.tree.map(move, each, square, params), LangevinState(state.key, count, square)

    return optax.GradientTransformation(init, update)


@self_checking
@dataclass(frozen=True)
class Langevin:
    """Langevin dynamics for the particles, and a first-order rule for all other parameters."""

    step_size: Annotated[float, "Step size h of the particles."] = 1e-2
    temperature: Annotated[float, "Temperature lambda of the particles."] = 1e-8
    memory: Annotated[float, "Weight of the past in the running mean of squared gradients of the particles."] = 0.9
    others: Annotated[FirstOrder, "Update of all other parameters."] = field(default_factory=FirstOrder)

    def __post_init__(self) -> None:
        check_settings(self, "update")
        require(self.step_size > 0, f"update.step_size must be positive, not {self.step_size}")
        require(self.temperature >= 0, f"update.temperature must not be negative, not {self.temperature}")
        require(0 <= self.memory < 1, f"update.memory must be in [0, 1), not {self.memory}")

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        require(GROUP in jax.tree.leaves(labels), "update=langevin moves particles: set family.mixing=particles")
        rules = {
            GROUP: langevin(self.step_size, self.temperature, self.memory),
            "others": self.others.transformation(labels, steps),
        }
        return optax.partition(rules, jax.tree.map(lambda name: name if name == GROUP else "others", labels))
