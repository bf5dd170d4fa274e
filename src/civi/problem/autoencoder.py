"""Autoencoders as targets: log p(x, z) = log N(z; 0, I) + log p(x | z) with a trained decoder (appendix B)."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from civi.family.amortised import repeated
from civi.family.mixing import MixingNetwork


@runtime_checkable
class Data(Protocol):
    """Rows of data that stay where they are; a batch of them is what encoder and decoder see."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    def batch(self, key: PRNGKeyArray, count: int) -> Any:
        """`count` random rows, as a pytree whose leaves have them on the first axis."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """p(x | z)."""

    def log_prob_each(self, x_J: Any, z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """log p(x_j | z_j)."""
        ...


class Images(eqx.Module):
    """Bits, or grey values 0 to 255 that every batch turns into bits afresh (dynamic binarisation).

    `pixels` may have more than `rows` rows, where they lie on many devices; those are never drawn.
    """

    pixels: UInt8[Array, "M X"]
    grey: bool = eqx.field(static=True)
    rows: int = eqx.field(static=True)

    def __init__(self, pixels: UInt8[Array, "N X"], grey: bool = False) -> None:
        self.pixels, self.grey, self.rows = pixels, grey, len(pixels)

    def batch(self, key: PRNGKeyArray, count: int) -> Float[Array, "J X"]:
        """Random rows as bits."""
        row_key, bit_key = jax.random.split(key)
        return self.bits(self.pixels[jax.random.randint(row_key, (count,), 0, self.rows)], bit_key)

    def bits(self, pixels: UInt8[Array, "J X"], key: PRNGKeyArray) -> Float[Array, "J X"]:
        """These rows as bits: as they are, or drawn with probability pixel / 255."""
        if not self.grey:
            return pixels.astype(float)
        return jax.random.bernoulli(key, pixels / 255.0).astype(float)


class ImageDecoder(eqx.Module):
    """Independent pixels: p(x | z) = prod_i Bernoulli(x_i; sigmoid(logit_i(z)))."""

    network: MixingNetwork

    def log_prob_each(self, x_J: Float[Array, "J X"], z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """sum_i [x_i logit_i - log(1 + exp(logit_i))]."""
        logit_J = self.network(z_J)
        return (x_J * logit_J - jax.nn.softplus(logit_J)).sum(-1)

    def mean(self, z_J: Float[Array, "*J D"]) -> Float[Array, "*J X"]:
        """The probability of every pixel."""
        return jax.nn.sigmoid(self.network(z_J))


class Autoencoder(eqx.Module):
    """Data and, once a family has been made for them, a decoder: one z for every datum.

    neg_elbo is per datum; that of the whole data set is `rows` times it (the paper's N).
    """

    data: Data
    decoder: Decoder | None = None
    dim: int = eqx.field(static=True, default=0)

    @property
    def rows(self) -> int:
        """Number of data."""
        return self.data.rows

    def batch(self, key: PRNGKeyArray, count: int) -> Batch:
        """Random data, with the decoder."""
        return Batch(self.decoder, self.data.batch(key, count), self.dim)


class Batch(eqx.Module):
    """N data; J draws of z are J / N of every datum, those of one datum beside each other."""

    decoder: Any
    x_N: Any
    dim: int = eqx.field(static=True)
    weight: Float[Array, ""] | float = 1.0

    def log_prob_each(self, z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """log p(z_j) + weight log p(x_n | z_j) for the datum n that z_j belongs to."""
        x_J = repeated(self.x_N, len(z_J))
        return norm.logpdf(z_J).sum(-1) + self.weight * self.decoder.log_prob_each(x_J, z_J)

    def weighted(self, weight: Float[Array, ""]) -> Batch:
        """The likelihood to the power of `weight`: weight 1/w is the KL to the prior times w, up to a factor."""
        return Batch(self.decoder, self.x_N, self.dim, weight)

    def take(self, index_S: Int[Array, " S"]) -> Batch:
        """Some of the data."""
        return Batch(self.decoder, jax.tree.map(lambda leaf: leaf[index_S], self.x_N), self.dim, self.weight)
