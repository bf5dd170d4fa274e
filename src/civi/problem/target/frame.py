"""A change of coordinates z = location + factor w, in which the target is about standard normal."""

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
        """From frame coordinates w to the target's coordinates z."""
        return self.location + w @ self.factor.T

    def inward(self, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
        """From the target's coordinates z to frame coordinates w."""
        return solve_triangular(self.factor, (z - self.location).T, lower=True).T


class Framed(eqx.Module):
    """A target as a density of w, including the Jacobian, so that neg_elbo is the same in both coordinates.

    `log_p` and `slope` are log p(x, z) and its gradient at the frame's location, on all data.
    """

    target: Target
    frame: Frame
    log_p: Float[Array, ""]
    slope: Float[Array, " D"]

    @classmethod
    def at(cls, target: Target, frame: Frame) -> Framed:
        """The target in this frame, with its value and its gradient at the frame's location."""
        return cls(target, frame, *jax.value_and_grad(target.log_prob)(frame.location))

    @property
    def dim(self) -> int:
        return self.target.dim

    @property
    def rows(self) -> int:
        """Number of rows of data of the target; 0 if it has none."""
        return self.target.rows if isinstance(self.target, BatchedTarget) else 0

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(self.frame.outward(z)) + self.frame.log_volume

    def batch(self, key: PRNGKeyArray, count: int) -> Framed:
        """The target on a mini-batch, in the same frame, with a control variate that is exact at the frame's location.

        In units of the posterior scale, the gradient noise of B out of N rows is about sqrt(N/B) without the control
        variate, and about |w| / sqrt(B) with it.
        """
        batch = batch_of(self.target, key, count)
        log_p, slope = jax.value_and_grad(batch.log_prob)(self.frame.location)
        anchored = Anchored(batch, self.frame.location, self.log_p - log_p, self.slope - slope)
        return Framed(anchored, self.frame, self.log_p, self.slope)


class Anchored(eqx.Module):
    """Control variate: a mini-batch log density plus a linear function that makes it first-order exact at `location`.

    The linear function averages to 0 over mini-batches at every z, so the sum stays unbiased.
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
    """Points in the target's original coordinates; unchanged if the target has no frame."""
    return target.frame.outward(w) if isinstance(target, Framed) else w


def inward(target: Target, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
    """Points in the coordinates of the target's frame; unchanged if the target has no frame."""
    return target.frame.inward(z) if isinstance(target, Framed) else z


def log_volume(target: Target) -> float:
    """log |det factor| of the target's frame; 0 without a frame."""
    return float(target.frame.log_volume) if isinstance(target, Framed) else 0.0


def unframed(target: Target) -> Target:
    """The target in its original coordinates."""
    return target.target if isinstance(target, Framed) else target
