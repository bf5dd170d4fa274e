"""Laplace pilot: the mode, found by a damped Newton method, and the curvature there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.errors import TargetError, require
from civi.inference.pilot.passes import in_full_passes
from civi.problem.target import Frame, Framed, Target, check_shape
from civi.problem.target.streamed import StreamedRegression
from civi.settings import check_settings, self_checking

HALVINGS = 20
FLATTEST = 1e-6
ROUNDING = 4e-6
CLOSE = 1e-6


class Climb(NamedTuple):
    """State of the search for a mode.

    Attributes:
        z: current point.
        log_p: log density at z.
        predicted_gain: the predicted increase of the last step (half the squared Newton decrement).
        steps: number of steps so far.
    """

    z: Float[Array, " D"]
    log_p: Float[Array, ""]
    predicted_gain: Float[Array, ""]
    steps: Float[Array, ""]


@self_checking
@dataclass(frozen=True)
class Laplace:
    """The location is where Newton's method from 0 ends, the factor comes from the inverse curvature there.

    The location is a mode, unless 0 is itself a saddle point (for example between two equal modes): then it stays at 0.
    For a table that is read from disk, the mode is found on a sample of its rows and corrected by full passes.
    """

    steps: Annotated[int, "Maximum number of steps of Newton's method."] = 100

    def __post_init__(self) -> None:
        check_settings(self, "pilot")
        require(self.steps >= 1, f"pilot.steps must be at least 1, not {self.steps}")

    def look(self, target: Target) -> Target:
        check_shape(target)
        framed = _at_mode(target, jnp.zeros(target.dim), self.steps)
        found = (framed.frame.location, framed.frame.factor, framed.log_p)
        if not all(np.isfinite(part).all() for part in found):
            raise TargetError("the pilot found no finite mode of the log density: check it at z = 0, or set pilot=none")
        if np.linalg.norm(framed.frame.factor.T @ framed.slope) > 1:
            raise TargetError(
                f"the pilot found no maximum of the log density in {self.steps} steps: is the posterior proper? "
                "If it is, set pilot=none"
            )
        return in_full_passes(target, framed) if isinstance(target, StreamedRegression) else framed


@eqx.filter_jit
def _at_mode(target: Target, start: Float[Array, " D"], steps: int) -> Framed:
    """The target in the frame of the mode that Newton's method finds from `start`."""

    def more(climb: Climb) -> Array:
        return (climb.steps < steps) & (climb.predicted_gain > CLOSE)

    def step(climb: Climb) -> Climb:
        return newton(target.log_prob, climb)

    z = jax.lax.while_loop(more, step, begin(target.log_prob, start)).z
    return Framed.at(target, Frame(z, inverse_factor(-jax.hessian(target.log_prob)(z))))


def begin(log_prob: Callable[[Array], Array], start: Float[Array, " D"]) -> Climb:
    """The state before the first step."""
    return Climb(start, log_prob(start), jnp.asarray(jnp.inf), jnp.zeros(()))


def newton(log_prob: Callable[[Array], Array], climb: Climb) -> Climb:
    """One damped Newton step.

    The full step is taken if log p does not fall by more than rounding error. Otherwise the best of the half step, the
    quarter step and so on is taken, or none if all of them lower log p.
    """
    gradient, factor = jax.grad(log_prob)(climb.z), inverse_factor(-jax.hessian(log_prob)(climb.z))
    whitened = factor.T @ gradient
    tried = climb.z + 0.5 ** jnp.arange(HALVINGS)[:, None] * (factor @ whitened)
    log_p = jax.lax.map(log_prob, tried)
    log_p = jnp.where(jnp.isfinite(log_p), log_p, -jnp.inf)
    whole = log_p[0] >= climb.log_p - ROUNDING * jnp.abs(climb.log_p)
    best = jnp.where(whole, 0, jnp.argmax(log_p))
    moved = whole | (log_p[best] > climb.log_p)
    predicted_gain = jnp.where(moved, 0.5 * whitened @ whitened, 0.0)
    z = jnp.where(moved, tried[best], climb.z)
    return Climb(z, jnp.where(moved, log_p[best], climb.log_p), predicted_gain, climb.steps + 1)


def inverse_factor(curvature: Float[Array, "D D"]) -> Float[Array, "D D"]:
    """A lower triangular F with F F^T = |curvature|^-1, where |.| takes the absolute value of each eigenvalue.

    The curvature is first scaled to unit diagonal, so that parameters of very different scales keep single precision.
    """
    scale = 1 / jnp.sqrt(jnp.maximum(jnp.abs(jnp.diagonal(curvature)), jnp.finfo(curvature.dtype).tiny))
    values, vectors = jnp.linalg.eigh(scale[:, None] * curvature * scale)
    size = jnp.abs(values)
    inverse = (vectors / jnp.maximum(size, FLATTEST * size.max())) @ vectors.T
    return scale[:, None] * jnp.linalg.cholesky(inverse)
