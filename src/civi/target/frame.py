"""A target seen in other coordinates: z = location + factor w, so that w is about standard normal."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from civi.target.base import Target, batch_of


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
    """log p(x, z) as a density of w: the neg_elbo is the same in both coordinates."""

    target: Target
    frame: Frame

    @property
    def dim(self) -> int:
        return self.target.dim

    @property
    def rows(self) -> int:
        """How many rows of data the target has; 0 if it has none."""
        return getattr(self.target, "rows", 0)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(self.frame.outward(z)) + self.frame.log_volume

    def batch(self, key: PRNGKeyArray, count: int) -> Framed:
        """The same frame around a batch of the target."""
        return Framed(batch_of(self.target, key, count), self.frame)


def outward(target: Target, w: Float[Array, "N D"]) -> Float[Array, "N D"]:
    """Draws in the target's own coordinates, whether it is framed or not."""
    return target.frame.outward(w) if isinstance(target, Framed) else w
