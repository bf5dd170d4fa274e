"""Laplace pilot: the mode by a damped Newton method, and the curvature there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.errors import TargetError, require
from civi.target import Frame, Framed, Target, check_shape

HALVINGS = 20
FLATTEST = 1e-14


class Climb(NamedTuple):
    """Where the search stands, and what its last step gained."""

    z: Float[Array, " D"]
    log_p: Float[Array, ""]
    gained: Float[Array, ""]
    steps: Float[Array, ""]


@dataclass(frozen=True)
class Laplace:
    """Location at the mode of log p, factor from the inverse of its curvature; at most `steps` Newton steps from 0."""

    steps: int = 100

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"pilot.steps must be at least 1, not {self.steps}")

    def look(self, target: Target) -> Target:
        """The search runs in double precision: scales from 1e-3 to 1e3 leave float32 no digits in the curvature."""
        check_shape(target)
        with jax.enable_x64(True):
            found = _mode(target, jnp.zeros(target.dim, jnp.float64), self.steps)
            location, factor, log_p, slope = (np.asarray(array, np.float32) for array in found)
        if not (np.isfinite(location).all() and np.isfinite(factor).all()):
            raise TargetError("the pilot found no finite mode of the log density: check it at z = 0, or set pilot=none")
        frame = Frame(jnp.asarray(location), jnp.asarray(factor))
        return Framed(target, frame, jnp.asarray(log_p), jnp.asarray(slope))


@eqx.filter_jit
def _mode(target: Target, start: Float[Array, " D"], steps: int) -> tuple[Array, Array, Array, Array]:
    """The highest point found from `start`, the factor of the inverse curvature, log p and its gradient there."""

    def more(climb: Climb) -> Array:
        return (climb.steps < steps) & (climb.gained > 1e-9 * (1 + jnp.abs(climb.log_p)))

    def step(climb: Climb) -> Climb:
        return _newton(target.log_prob, climb)

    first = Climb(start, target.log_prob(start), jnp.asarray(jnp.inf), jnp.zeros(()))
    found = jax.lax.while_loop(more, step, first)
    z = found.z.astype(jnp.float32).astype(found.z.dtype)
    curvature = _positive(-jax.hessian(target.log_prob)(z))
    return z, jnp.linalg.cholesky(jnp.linalg.inv(curvature)), *jax.value_and_grad(target.log_prob)(z)


def _newton(log_prob: Callable[[Array], Array], climb: Climb) -> Climb:
    """The best of the Newton step, half of it, a quarter, ...; curvature that points upward counts by its size."""
    gradient, curvature = jax.grad(log_prob)(climb.z), -jax.hessian(log_prob)(climb.z)
    direction = jnp.linalg.solve(_positive(curvature), gradient)
    tried = climb.z + 0.5 ** jnp.arange(HALVINGS)[:, None] * direction
    log_p = jax.lax.map(log_prob, tried)
    log_p = jnp.where(jnp.isfinite(log_p), log_p, -jnp.inf)
    best = jnp.argmax(log_p)
    better = log_p[best] > climb.log_p
    z = jnp.where(better, tried[best], climb.z)
    return Climb(z, jnp.maximum(log_p[best], climb.log_p), jnp.maximum(log_p[best] - climb.log_p, 0), climb.steps + 1)


def _positive(curvature: Float[Array, "D D"]) -> Float[Array, "D D"]:
    """V |Lambda| V^T, flat directions raised to a small share of the steepest."""
    values, vectors = jnp.linalg.eigh(curvature)
    size = jnp.abs(values)
    return (vectors * jnp.maximum(size, FLATTEST * size.max())) @ vectors.T
