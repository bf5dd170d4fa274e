"""Laplace conditional, with heavier tails than a Gaussian."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.family.conditional import Conditional


class LaplaceConditional(Conditional):
    """Independent Laplace coordinates with location mu(eps) and trained scales that do not depend on eps."""

    log_scale: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> LaplaceConditional:
        return cls(jnp.full(dim, jnp.log(scale / np.sqrt(2))))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.full(dim, spread)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.laplace(key, (count, self.log_scale.size))

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return mixed + jnp.exp(self.log_scale) * u

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        return -(jnp.abs(u) + self.log_scale + np.log(2)).sum()

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return -(jnp.abs(z - mixed) * jnp.exp(-self.log_scale) + self.log_scale + np.log(2)).sum()

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        @jax.checkpoint
        def add_coordinate(total_JK: Array, coordinate: tuple[Array, Array, Array]) -> tuple[Array, None]:
            x_J, m_K, precision = coordinate
            return total_JK + jnp.abs(x_J[:, None] - m_K) * precision, None

        start = jnp.zeros((len(z_J), len(mixed_K)), z_J.dtype)
        absolute, _ = jax.lax.scan(add_coordinate, start, (z_J.T, mixed_K.T, jnp.exp(-self.log_scale)))
        return -absolute - (self.log_scale + np.log(2)).sum()
