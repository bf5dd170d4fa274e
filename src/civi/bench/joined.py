"""The image encoder without its split first layer, to measure what the split saves."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.family import Amortised, Encoder, MixingNetwork
from civi.problem import AutoencoderProblem


class AsItIs(eqx.Module):
    """A reader that returns the data unchanged."""

    def __call__(self, x_J: Float[Array, "J X"]) -> Float[Array, "J X"]:
        """Return the data."""
        return x_J


class JoinedEncoder(Encoder):
    """A network that is applied to the concatenated vector [x, eps] of every pair."""

    def __call__(self, feature: Float[Array, "*N X"], eps: Float[Array, "*M E"]) -> Float[Array, "*NM P"]:
        """Parameters of the conditional for every pair."""
        shape = jnp.broadcast_shapes(feature.shape[:-1], eps.shape[:-1])
        joined = [jnp.broadcast_to(part, (*shape, part.shape[-1])) for part in (feature, eps)]
        return self.rest(jnp.concatenate(joined, axis=-1))


def unsplit(problem: AutoencoderProblem) -> AutoencoderProblem:
    """The same problem, with the encoder's first layer applied to the concatenated vector."""
    return replace(problem, family=joined(problem.family))


def joined(family: Amortised) -> Amortised:
    """The same family, with its first layer applied to [x, eps]; its noise must enter the first hidden layer."""
    reader, encoder = family.mixing.reader, family.mixing
    if not isinstance(reader, MixingNetwork) or encoder.noise_weight is None:
        raise TypeError("only an image encoder with noise has a split first layer")
    first = jnp.concatenate([reader.weights[0], encoder.noise_weight])
    network = MixingNetwork(
        (first, *encoder.rest.weights), (reader.biases[0], *encoder.rest.biases), encoder.rest.activation
    )
    return Amortised(family.noise, JoinedEncoder(AsItIs(), None, network), family.conditional)
