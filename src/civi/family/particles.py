"""Particles as mixing (PVI, Lim and Johansen 2024): q is a finite mixture whose components are trained vectors."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.family.mixing import MixingNetwork
from civi.parts import trained


class ParticleNoise(eqx.Module):
    """eps ~ uniform on {0, .., count - 1}: the number of a particle, as a float."""

    count: int = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=1)
    scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        require(self.count >= 1, f"family.particles must be at least 1, not {self.count}")

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N 1"]:
        """Systematic draws: all particles in turn, from a random one on.

        Each draw is uniform, and every `self.count` draws in a row hold each particle once. A mean over a multiple of
        that many draws is therefore the exact mean over the particles.
        """
        first = jax.random.randint(key, (), 0, self.count)
        return ((first + jnp.arange(count)) % self.count).astype(float)[:, None]

    def log_prob(self, eps: Float[Array, " 1"]) -> Float[Array, ""]:
        """log q(eps) = -log count."""
        return -jnp.log(self.count * jnp.ones(()))


class Particles(eqx.Module):
    """q(z) = mean_m q(z | particle_m): a network maps each particle to the parameters of its conditional."""

    network: MixingNetwork
    particles: Float[Array, "M E"] = trained("particles")

    def __call__(self, eps: Float[Array, "*N 1"]) -> Float[Array, "*N P"]:
        """Parameters of the conditional for the particles of these numbers."""
        return self.network(self.particles[eps[..., 0].astype(int)])
