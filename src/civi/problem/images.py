"""Binary images and their decoder: p(x | z) = prod_i Bernoulli(x_i; sigmoid(logit_i(z)))."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from civi.family import MixingNetwork
from civi.parts import constant, data_rows


class Images(eqx.Module):
    """Binary pixels, or grey values 0 to 255 that are binarised anew in every batch (dynamic binarisation).

    On many devices `pixels` may be padded to more than `rows` rows, to divide evenly; padding rows are never drawn.
    """

    pixels: UInt8[Array, "M X"] = data_rows()
    grey: bool = constant(static=True)
    rows: int = constant(static=True)

    def __init__(self, pixels: UInt8[Array, "N X"], grey: bool = False) -> None:
        self.pixels, self.grey, self.rows = pixels, grey, len(pixels)

    def batch(self, key: PRNGKeyArray, count: int) -> Float[Array, "J X"]:
        """`count` random rows with replacement, as 0 and 1."""
        row_key, bit_key = jax.random.split(key)
        return self.bits(self.pixels[jax.random.randint(row_key, (count,), 0, self.rows)], bit_key)

    def bits(self, pixels: UInt8[Array, "J X"], key: PRNGKeyArray) -> Float[Array, "J X"]:
        """These rows as 0 and 1; grey pixels are 1 with probability pixel / 255."""
        if not self.grey:
            return pixels.astype(float)
        return jax.random.bernoulli(key, pixels / 255.0).astype(float)


class ImageDecoder(eqx.Module):
    """Independent Bernoulli pixels given z."""

    network: MixingNetwork

    def log_prob_each(self, x_J: Float[Array, "J X"], z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """sum_i [x_i logit_i - log(1 + exp(logit_i))]."""
        logit_J = self.network(z_J)
        return (x_J * logit_J - jax.nn.softplus(logit_J)).sum(-1)

    def mean(self, z_J: Float[Array, "*J D"]) -> Float[Array, "*J X"]:
        """The probability that each pixel is 1."""
        return jax.nn.sigmoid(self.network(z_J))
