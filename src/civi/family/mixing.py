"""Mixing network: eps -> parameters of the conditional q(z | eps)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require, unknown

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
}


class ConstantMixing(eqx.Module):
    """No mixing: the conditional is the same for every eps, so q is explicit (mean-field and full-rank Gaussians)."""

    output: Float[Array, " P"]

    def __call__(self, eps: Float[Array, " E"]) -> Float[Array, " P"]:
        """The conditional's parameters, which do not depend on the noise."""
        return self.output


class MixingNetwork(eqx.Module):
    """Multilayer perceptron on noise vectors; linear (A eps + b) without hidden layers."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]
    activation: str = eqx.field(static=True)

    @classmethod
    def init(
        cls, sizes: Sequence[int], activation: str, output_gain: Float[Array, " out"], key: PRNGKeyArray
    ) -> MixingNetwork:
        """Xavier-normal weights and zero biases.

        Args:
            sizes: widths of all layers, from the input to the output.
            activation: name of the activation function.
            output_gain: factor of each output's weights in the last layer.
            key: draws the weights.
        """
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        require(all(size >= 1 for size in sizes), f"layer sizes must be at least 1, not {tuple(sizes)}")
        shapes = list(pairwise(sizes))
        keys = jax.random.split(key, len(shapes))
        weights = [xavier_normal(k, shape) for k, shape in zip(keys, shapes, strict=True)]
        weights[-1] = weights[-1] * output_gain
        return cls(tuple(weights), tuple(jnp.zeros(width) for _, width in shapes), activation)

    def __call__(self, eps: Float[Array, "*N E"]) -> Float[Array, "*N P"]:
        """Parameters of the conditional for every noise vector."""
        hidden = eps
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = ACTIVATIONS[self.activation](hidden @ weight + bias)
        return hidden @ self.weights[-1] + self.biases[-1]


# N(0, 2 / (inputs + outputs)). Unlike jax.nn.initializers.glorot_normal, the normal distribution is not truncated.
xavier_normal = jax.nn.initializers.variance_scaling(1.0, "fan_avg", "normal")
