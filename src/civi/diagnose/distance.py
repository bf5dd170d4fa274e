"""Distances between samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


@jax.jit
def sliced_wasserstein(x: Float[Array, "N D"], y: Float[Array, "N D"], key: PRNGKeyArray) -> Float[Array, ""]:
    """Sliced Wasserstein-2: root of the mean over 500 random directions of W2^2 between the projections."""
    direction = jax.random.normal(key, (x.shape[1], 500))
    direction = direction / jnp.linalg.norm(direction, axis=0)
    return jnp.sqrt(((jnp.sort(x @ direction, axis=0) - jnp.sort(y @ direction, axis=0)) ** 2).mean())
