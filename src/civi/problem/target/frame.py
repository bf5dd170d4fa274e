"""A target seen in other coordinates: z = location + factor w, so that w is about standard normal."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from civi.problem.target.base import BatchedTarget, Target, batch_of


class Frame(eqx.Module):
    """z = location + factor w, with a lower triangular factor."""

    location: Float[Array, " D"]
    factor: Float[Array, "D D"]

    @property
    def log_volume(self) -> Float[Array, ""]:
        """log |det factor|."""
        return jnp.log(jnp.diagonal(self.factor)).sum()

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From the frame to the target's own coordinates."""
        return self.location + w @ self.factor.T

    def inward(self, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
        """From the target's own coordinates to the frame."""
        return solve_triangular(self.factor, (z - self.location).T, lower=True).T


class Framed(eqx.Module):
    """log p(x, z) as a density of w: the neg_elbo is the same in both coordinates.

    log_p and slope are log p(x, z) and its gradient at the frame's location, from all data.
    """

    target: Target
    frame: Frame
    log_p: Float[Array, ""]
    slope: Float[Array, " D"]

    @classmethod
    def at(cls, target: Target, frame: Frame) -> Framed:
        """The target in this frame, with its value and slope at the location."""
        return cls(target, frame, *jax.value_and_grad(target.log_prob)(frame.location))

    @property
    def dim(self) -> int:
        return self.target.dim

    @property
    def rows(self) -> int:
        """How many rows of data the target has; 0 if it has none."""
        return self.target.rows if isinstance(self.target, BatchedTarget) else 0

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(self.frame.outward(z)) + self.frame.log_volume

    def batch(self, key: PRNGKeyArray, count: int) -> Framed:
        """The same frame around a batch of the target, which is anchored where all data are known.

        A batch of B of N rows alone has noise of size sqrt(N/B) in the gradient, in units of the posterior; anchored,
        about |w| / sqrt(B).
        """
        batch = batch_of(self.target, key, count)
        log_p, slope = jax.value_and_grad(batch.log_prob)(self.frame.location)
        anchored = Anchored(batch, self.frame.location, self.log_p - log_p, self.slope - slope)
        return Framed(anchored, self.frame, self.log_p, self.slope)


class Anchored(eqx.Module):
    """A batch's log density plus a plane that makes value and gradient exact at one point: a control variate.

    The plane's mean over batches is 0 everywhere, so that the sum stays unbiased.
    """

    target: Target
    location: Float[Array, " D"]
    height: Float[Array, ""]
    tilt: Float[Array, " D"]

    @property
    def dim(self) -> int:
        return self.target.dim

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(z) + self.height + self.tilt @ (z - self.location)


def outward(target: Target, w: Float[Array, "N D"]) -> Float[Array, "N D"]:
    """Draws in the target's own coordinates, whether it is framed or not."""
    return target.frame.outward(w) if isinstance(target, Framed) else w


def inward(target: Target, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
    """Points of the target's own coordinates in its frame, if it has one."""
    return target.frame.inward(z) if isinstance(target, Framed) else z


def log_volume(target: Target) -> float:
    """log |det| of the frame, 0 without one."""
    return float(target.frame.log_volume) if isinstance(target, Framed) else 0.0


def unframed(target: Target) -> Target:
    """The target in its own coordinates."""
    return target.target if isinstance(target, Framed) else target
