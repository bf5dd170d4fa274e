"""Mixing noise: eps ~ q(eps)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require


@runtime_checkable
class Noise(Protocol):
    """q(eps), as a family needs it."""

    @property
    def dim(self) -> int:
        """Dimension of eps."""
        ...

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N E"]:
        """`count` noise vectors, each distributed as q(eps)."""
        ...

    def log_prob(self, eps: Float[Array, " E"]) -> Float[Array, ""]:
        """log q(eps)."""
        ...


class GaussianNoise(eqx.Module):
    """eps ~ N(0, scale^2 I). The paper uses scale 1 for toy targets and VAEs, and 10 (variance 100) for regression."""

    dim: int = eqx.field(static=True)
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        require(self.dim >= 1, f"noise dimension must be at least 1, not {self.dim}")
        require(self.scale > 0, f"noise scale must be positive, not {self.scale}")

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N E"]:
        """Draw `count` independent noise vectors."""
        return self.scale * jax.random.normal(key, (count, self.dim))

    def log_prob(self, eps: Float[Array, " E"]) -> Float[Array, ""]:
        """log q(eps)."""
        return jax.scipy.stats.norm.logpdf(eps, scale=self.scale).sum()
