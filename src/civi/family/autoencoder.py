"""What an autoencoder is made of: an amortised family as encoder, and a decoder for the same data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from civi.errors import require
from civi.family.amortised import Amortised, Encoder, LinearReader
from civi.family.mixing import MixingNetwork, xavier_normal
from civi.family.noise import GaussianNoise
from civi.family.registry import CONDITIONALS
from civi.family.semi_implicit import Architecture
from civi.target.autoencoder import Autoencoder, ImageDecoder


@dataclass(frozen=True)
class ImageArchitecture(Architecture):
    """Encoder with layers `hidden` on [x, eps], decoder with layers `decoder_hidden`, z in R^latent_dim.

    noise_gain multiplies the first weights of eps, which next to hundreds of pixels would hardly be heard.
    """

    hidden: tuple[int, ...] = (200, 200)
    noise_dim: int = 10
    conditional: str = "diagonal"
    scale: float = 1.0
    spread: float = 1.0
    latent_dim: int = 10
    decoder_hidden: tuple[int, ...] = (200, 200)
    noise_gain: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.hidden) >= 1, "family.hidden needs at least one layer, which reads x and eps")
        require(self.latent_dim >= 1, f"family.latent_dim must be at least 1, not {self.latent_dim}")
        require(self.noise_gain > 0, f"family.noise_gain must be positive, not {self.noise_gain}")

    def fitted_to(self, target: Any, key: PRNGKeyArray) -> tuple[Amortised, Autoencoder]:
        """An encoder and the target with a decoder, both with random weights."""
        return _fitted_to(self, target, key)


@eqx.filter_jit
def _fitted_to(architecture: ImageArchitecture, target: Autoencoder, key: PRNGKeyArray) -> tuple[Amortised, Any]:
    encoder_key, decoder_key = jax.random.split(key)
    pixels = target.data.batch(key, 1).shape[1]
    sizes = (architecture.latent_dim, *architecture.decoder_hidden, pixels)
    network = MixingNetwork.init(sizes, architecture.activation, jnp.ones(pixels), decoder_key)
    family = Amortised(
        GaussianNoise(architecture.noise_dim, architecture.noise_scale),
        _image_encoder(architecture, pixels, encoder_key),
        CONDITIONALS[architecture.conditional].init(architecture.latent_dim, architecture.scale),
    )
    return family, Autoencoder(target.data, ImageDecoder(network), architecture.latent_dim)


def _image_encoder(architecture: ImageArchitecture, pixels: int, key: PRNGKeyArray) -> Encoder:
    """Xavier-normal weights of the joined first layer, cut into those of x and those of eps."""
    first_key, rest_key = jax.random.split(key)
    gain = CONDITIONALS[architecture.conditional].output_gain(architecture.latent_dim, architecture.spread)
    width = architecture.hidden[0]
    joined = xavier_normal(first_key, (pixels + architecture.noise_dim, width))
    noise_weight = None if architecture.mixing == "constant" else architecture.noise_gain * joined[pixels:]
    rest = MixingNetwork.init((*architecture.hidden, gain.size), architecture.activation, gain, rest_key)
    return Encoder(LinearReader(joined[:pixels]), noise_weight, jnp.zeros(width), rest)
