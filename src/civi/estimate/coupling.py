"""Reverse model tau(eps | z): a conditional flow of affine coupling layers, which starts at the prior q(eps)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from civi.family import Encoder, MixingNetwork
from civi.family.mixing import xavier_normal

LARGEST = 3.0


class CouplingFlow(eqx.Module):
    """eps = scale T_L(... T_1(xi)), xi ~ N(0, I); a layer moves half of the coordinates given the others and c.

    A layer changes x = (a, b) to (a, b exp(s) + t) with (s, t) a network on (a, c), and then reverses the coordinates.
    Log scales s are bounded by LARGEST. The networks read the condition c once, for all noise vectors that share it.
    """

    layers: tuple[Encoder, ...]
    scale: float = eqx.field(static=True)

    @classmethod
    def init(
        cls, dim: int, condition: int, scale: float, layers: int, hidden: tuple[int, ...], key: PRNGKeyArray
    ) -> CouplingFlow:
        """A flow that is N(0, scale^2 I) whatever the condition.

        Args:
            dim: dimension of eps.
            condition: dimension of c.
            scale: standard deviation of the prior.
            layers: number of coupling layers.
            hidden: widths of the hidden layers of each network.
            key: draws the weights.
        """

        def layer(key: PRNGKeyArray) -> Encoder:
            reader_key, noise_key, rest_key = jax.random.split(key, 3)
            given, moved = dim // 2, dim - dim // 2
            reader = MixingNetwork.init((condition, hidden[0]), "relu", jnp.ones(hidden[0]), reader_key)
            weight = xavier_normal(noise_key, (given, hidden[0])) if given else None
            rest = MixingNetwork.init((*hidden, 2 * moved), "relu", jnp.zeros(2 * moved), rest_key)
            return Encoder(reader, weight, rest)

        return cls(tuple(layer(key) for key in jax.random.split(key, layers)), scale)

    def draw(
        self, condition_J: Float[Array, "J C"], key: PRNGKeyArray, count: int
    ) -> tuple[Float[Array, "J K E"], Float[Array, "J K"]]:
        """`count` draws of tau(eps | c_j) for every condition, and their log densities."""
        first = self.layers[0].rest.biases[-1].size // 2
        dim = first + (0 if self.layers[0].noise_weight is None else len(self.layers[0].noise_weight))
        x = jax.random.normal(key, (len(condition_J), count, dim))
        log_tau_JK = (norm.logpdf(x) - jnp.log(self.scale)).sum(-1)
        for layer in self.layers:
            a, b = x[..., : dim // 2], x[..., dim // 2 :]
            log_scale, shift = _scale_and_shift(layer, condition_J[:, None], a)
            log_tau_JK = log_tau_JK - log_scale.sum(-1)
            x = jnp.concatenate([a, b * jnp.exp(log_scale) + shift], axis=-1)[..., ::-1]
        return self.scale * x, log_tau_JK

    def log_prob(self, eps_J: Float[Array, "J E"], condition_J: Float[Array, "J C"]) -> Float[Array, " J"]:
        """log tau(eps_j | c_j)."""
        x, dim = eps_J / self.scale, eps_J.shape[1]
        log_scales_J = jnp.zeros(len(eps_J))
        for layer in reversed(self.layers):
            x = x[..., ::-1]
            a, b = x[..., : dim // 2], x[..., dim // 2 :]
            log_scale, shift = _scale_and_shift(layer, condition_J, a)
            log_scales_J = log_scales_J + log_scale.sum(-1)
            x = jnp.concatenate([a, (b - shift) * jnp.exp(-log_scale)], axis=-1)
        return (norm.logpdf(x) - jnp.log(self.scale)).sum(-1) - log_scales_J


def _scale_and_shift(layer: Encoder, condition: Array, given: Array) -> tuple[Array, Array]:
    """The log scales and shifts of a layer, given the condition and the coordinates that it does not move."""
    out = layer(layer.reader(condition), given)
    log_scale, shift = jnp.split(out, 2, axis=-1)
    return LARGEST * jnp.tanh(log_scale / LARGEST), shift
