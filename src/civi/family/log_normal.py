"""Log-normal conditional, an example with positive support."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.family.conditional import Conditional
from civi.family.gaussian import DiagonalGaussian


class LogNormal(Conditional):
    """log z ~ N(mu(eps), diag(exp(2 log_scale))): for targets on the positive numbers."""

    gaussian: DiagonalGaussian

    @classmethod
    def init(cls, dim: int, scale: float) -> LogNormal:
        return cls(DiagonalGaussian.init(dim, scale))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return DiagonalGaussian.output_gain(dim, spread)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return self.gaussian.draw_base(key, count)

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return jnp.exp(self.gaussian.transform(mixed, u))

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.gaussian.log_prob(mixed, jnp.log(z)) - jnp.log(z).sum()

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        log_z_J = jnp.log(z_J)
        return self.gaussian.log_prob_pairs(mixed_K, log_z_J) - log_z_J.sum(1)[:, None]
