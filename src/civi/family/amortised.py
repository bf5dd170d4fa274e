"""Amortised semi-implicit family q(z | x): the encoder processes each datum once, for any number of noise vectors."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from civi.family.conditional import Conditional
from civi.family.mixing import ACTIVATIONS, MixingNetwork
from civi.family.noise import GaussianNoise
from civi.family.semi_implicit import Outer, SemiImplicit, draw_outer
from civi.parts import constant, trained


@runtime_checkable
class Reader(Protocol):
    """The part of an encoder that depends on the data alone."""

    def __call__(self, x_N: Any, /) -> Float[Array, "N H"]:
        """Features of every datum, before the first activation."""
        ...


class Encoder(eqx.Module):
    """A network on (x, eps) that processes each datum once: rest(activation(reader(x) + W_eps eps)).

    With a linear reader this equals a network on the concatenated vector [x, eps], with its first layer split in two.
    With hidden layers in the reader, the noise enters later, and a pair (x, eps) costs only the remaining layers.
    Without noise weights (None) the family is explicit.
    """

    reader: Reader
    noise_weight: Float[Array, "E H"] | None
    rest: MixingNetwork

    def __call__(self, feature: Float[Array, "*N H"], eps: Float[Array, "*M E"]) -> Float[Array, "*NM P"]:
        """Parameters of the conditional; features and noise broadcast against each other."""
        silent = jnp.zeros((*eps.shape[:-1], 1))
        noise = silent if self.noise_weight is None else eps @ self.noise_weight
        return self.rest(ACTIVATIONS[self.rest.activation](feature + noise))


class Amortised(eqx.Module):
    """q(z | eps, x) for any x; `given(x)` returns the family for a batch."""

    noise: GaussianNoise
    mixing: Encoder = trained("mixing")
    conditional: Conditional = trained("scale")

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        """(u_j, eps_j) ~ q(u) q(eps), which do not depend on x."""
        return draw_outer(self.noise, self.conditional, key, count)

    def given(self, x_N: Any) -> Conditioned:
        """The families q(z | x_n) for a batch of data."""
        return Conditioned(self.noise, self.mixing, self.conditional, self.mixing.reader(x_N))


class Conditioned(SemiImplicit):
    """q(z | x_n) for a batch of N data; mixing outputs, of shape (N, K, P), and pairs are per datum.

    Every datum has J / N of the J outer samples, with those of one datum adjacent.
    """

    mixing: Encoder = trained("mixing")
    feature_N: Float[Array, "N H"] = constant()

    def mix(self, eps_K: Float[Array, "K E"]) -> Float[Array, "N K P"]:
        """The conditional's parameters for every pair of a datum and a noise vector."""
        return self.mixing(self.feature_N[:, None], eps_K)

    def mix_each(self, eps_J: Float[Array, "J E"]) -> Float[Array, "J P"]:
        """The conditional's parameters for each outer sample's own noise and datum."""
        return self.mixing(self.context(len(eps_J)), eps_J)

    def log_prob_pairs(self, mixed: Float[Array, "N K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        """log q(z_j | eps_k, x_n) for the datum n that z_j belongs to."""
        z_NS = z_J.reshape(len(mixed), -1, z_J.shape[-1])
        of_datum = jax.vmap(jax.vmap(self.conditional.log_prob, in_axes=(0, None)), in_axes=(None, 0))
        return jax.vmap(of_datum)(mixed, z_NS).reshape(len(z_J), -1)

    def log_sum_pairs(
        self,
        mixed: Float[Array, "N K P"],
        z_J: Float[Array, "J D"],
        counted_K: Bool[Array, " K"],
        reference_J: Float[Array, " J"],
    ) -> Float[Array, " J"]:
        """log sum_k q(z_j | eps_k, x_n) for the datum n that z_j belongs to."""
        return logsumexp(self.log_prob_pairs(mixed, z_J), axis=1, where=counted_K)

    @property
    def floats_per_pair(self) -> int:
        """Number of outputs of the mixing network, since there is one output vector per datum and noise vector."""
        return self.mixing.rest.biases[-1].size

    def context(self, outer: int) -> Float[Array, "J H"]:
        """The features of every outer sample's datum."""
        return repeated(self.feature_N, outer)

    def log_conditional(self, z: Float[Array, " D"], eps: Float[Array, " E"], context: Any = None) -> Float[Array, ""]:
        """log q(z | eps, x) for the datum with these features."""
        return self.conditional.log_prob(self.mixing(context, eps), z)


def repeated(tree_N: Any, count: int) -> Any:
    """Repeat each row equally often, to `count` rows in total, with the copies of one datum adjacent."""
    return jax.tree.map(lambda rows: rows if len(rows) == count else jnp.repeat(rows, count // len(rows), 0), tree_N)
