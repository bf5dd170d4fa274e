"""Explicit, reparameterisable conditionals q(z | eps): z = h(u; eps), u ~ q(u).

A conditional takes its parameters from the mixing network's output (`mixed`) for one eps. To add a conditional,
implement the abstract methods of `Conditional` and add the class to `CONDITIONALS`. Only `log_prob_pairs` and
`log_sum_pairs` combine outer samples J with inner samples K.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class Conditional(eqx.Module):
    """q(z | eps), with trained parameters that do not depend on eps (theta_2 of the paper)."""

    @classmethod
    @abstractmethod
    def init(cls, dim: int, scale: float) -> Conditional:
        """Initial parameters for which the standard deviation of z given eps is about `scale`."""

    @staticmethod
    @abstractmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        """Initial gain of each output of the mixing network: `spread` for locations, 0 for log scales."""

    @abstractmethod
    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """`count` draws of u ~ q(u)."""

    @abstractmethod
    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        """z = h(u; eps)."""

    @abstractmethod
    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        """log q(z | eps)."""

    @abstractmethod
    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        """log q(z_j | eps_k) for all pairs, with O(JK) memory."""

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        """log q(z | eps) at z = h(u; eps).

        Subclasses compute it from u where they can, which is exact even where rounding of z loses a small scale.
        """
        return self.log_prob(mixed, self.transform(mixed, u))

    def score_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        """grad_z log q(z | eps) at z = h(u; eps); subclasses compute it from u where that is simpler."""
        return jax.grad(self.log_prob, argnums=1)(mixed, self.transform(mixed, u))

    def log_sum_pairs(
        self,
        mixed_K: Float[Array, "K P"],
        z_J: Float[Array, "J D"],
        counted_K: Bool[Array, " K"],
        reference_J: Float[Array, " J"],
    ) -> Float[Array, " J"]:
        """log sum_k q(z_j | eps_k) without a gradient.

        Args:
            mixed_K: mixing outputs of the inner samples.
            z_J: outer samples.
            counted_K: which inner samples enter the sum.
            reference_J: typical size of log q(z_j | eps_k), such as the own term; a conditional may use it in place of
                the maximum over k.
        """
        return logsumexp(self.log_prob_pairs(mixed_K, z_J), axis=1, where=counted_K)
