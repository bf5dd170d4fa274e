"""Explicit, reparameterisable conditionals q(z | eps): z = h(u; eps), u ~ q(u).

A conditional reads the mixing network's output (`mixed`) for one eps. A new one is a class with the five members of
`Conditional`, added to `CONDITIONALS`. `log_prob_pairs` is the only place where outer samples J meet inner samples K.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class Conditional(eqx.Module):
    """q(z | eps) with its own free parameters (theta_2 of the paper)."""

    @classmethod
    @abstractmethod
    def init(cls, dim: int, scale: float) -> Conditional:
        """Free parameters such that the standard deviation of z given eps is about `scale`."""

    @staticmethod
    @abstractmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        """Gain of each output of the mixing network at the start: `spread` for locations, 0 for log scales."""

    @abstractmethod
    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """u ~ q(u)."""

    @abstractmethod
    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        """z = h(u; eps)."""

    @abstractmethod
    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        """log q(z | eps)."""

    @abstractmethod
    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        """log q(z_j | eps_k) for all pairs, in memory O(JK)."""

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        """log q(z | eps) at z = h(u; eps). From u itself it stays exact where z has rounded a small scale away."""
        return self.log_prob(mixed, self.transform(mixed, u))

    def log_sum_pairs(
        self,
        mixed_K: Float[Array, "K P"],
        z_J: Float[Array, "J D"],
        counted_K: Bool[Array, " K"],
        reference_J: Float[Array, " J"],
    ) -> Float[Array, " J"]:
        """log sum_k q(z_j | eps_k) over the inner samples that count, where no gradient is needed.

        `reference_J` says how large log q(z_j | eps_k) is where it matters, such as the own term: a conditional may use
        it in place of the maximum.
        """
        return logsumexp(self.log_prob_pairs(mixed_K, z_J), axis=1, where=counted_K)
