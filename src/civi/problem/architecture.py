"""What a problem is made of: the family's architecture and, for autoencoders, that of the decoder."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from civi.errors import require
from civi.family.amortised import Amortised, Encoder, Reader
from civi.family.mixing import MixingNetwork, xavier_normal
from civi.family.noise import GaussianNoise
from civi.family.registry import CONDITIONALS
from civi.family.semi_implicit import Architecture, Conditioned, NoiseDim, Scale, Spread
from civi.problem.autoencoder import AutoencoderProblem, Decoder
from civi.problem.images import ImageDecoder, Images
from civi.problem.posterior import PosteriorProblem
from civi.problem.sentences import Recurrent, SentenceData, SentenceDecoder, SentenceReader
from civi.settings import check_settings, self_checking


@dataclass(frozen=True)
class Autoencoding(Architecture):
    """An encoder of x and noise to z in R^latent_dim, and a decoder."""

    noise_dim: NoiseDim = 10
    conditional: Conditioned = "diagonal"
    scale: Scale = 1.0
    spread: Spread = 1.0
    latent_dim: Annotated[int, "Dimension of the latent vector z."] = 10
    noise_gain: Annotated[float, "Factor of the noise's weights at the start."] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.hidden) >= 1, "family.hidden needs at least one layer, which reads x and the noise")
        require(self.latent_dim >= 1, f"family.latent_dim must be at least 1, not {self.latent_dim}")
        require(self.noise_gain > 0, f"family.noise_gain must be positive, not {self.noise_gain}")

    @abstractmethod
    def networks(self, data: Any, key: PRNGKeyArray) -> tuple[Amortised, Decoder]:
        """An encoder and a decoder for these data."""

    def encoder(self, reader: Reader, hidden: tuple[int, ...], key: PRNGKeyArray) -> Amortised:
        """The amortised family with this reader, whose features meet the noise in the first of the layers `hidden`."""
        noise_key, rest_key = jax.random.split(key)
        conditional = CONDITIONALS[self.conditional]
        gain = conditional.output_gain(self.latent_dim, self.spread)
        noise_weight = self.noise_gain * xavier_normal(noise_key, (self.noise_dim, hidden[0]))
        rest = MixingNetwork.init((*hidden, gain.size), self.activation, gain, rest_key)
        mixing = Encoder(reader, None if self.mixing == "constant" else noise_weight, rest)
        return Amortised(
            GaussianNoise(self.noise_dim, self.noise_scale), mixing, conditional.init(self.latent_dim, self.scale)
        )


@dataclass(frozen=True)
class ImageArchitecture(Autoencoding):
    """Multilayer perceptrons as encoder and decoder."""

    hidden: Annotated[tuple[int, ...], "Widths of the encoder's hidden layers."] = (200, 200)
    decoder_hidden: Annotated[tuple[int, ...], "Widths of the decoder's hidden layers."] = (200, 200)
    noise_layer: Annotated[int, "The encoder's hidden layer, counted from 1, that the noise enters."] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.decoder_hidden
        require(all(n >= 1 for n in sizes), f"family.decoder_hidden must be at least 1 each, not {sizes}")
        layers = len(self.hidden)
        require(1 <= self.noise_layer <= layers, f"family.noise_layer must be 1 to {layers}, not {self.noise_layer}")

    def networks(self, data: Images, key: PRNGKeyArray) -> tuple[Amortised, Decoder]:
        """An encoder and a decoder for these images, both with random weights."""
        return _for_images(self, data.pixels.shape[1], key)


@dataclass(frozen=True)
class TextArchitecture(Autoencoding):
    """Encoder: embedding, LSTM, hidden layers. Decoder: embedding, LSTM told z, softmax."""

    hidden: Annotated[tuple[int, ...], "Widths of the encoder's hidden layers after the LSTM."] = (256,)
    latent_dim: Annotated[int, "Dimension of the latent vector z."] = 20
    embedding: Annotated[int, "Dimension of the word embeddings."] = 256
    recurrent: Annotated[int, "Width of the LSTMs."] = 256
    word_dropout: Annotated[float, "Share of words that the decoder is not told in training."] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.embedding >= 1, f"family.embedding must be at least 1, not {self.embedding}")
        require(self.recurrent >= 1, f"family.recurrent must be at least 1, not {self.recurrent}")
        require(0 <= self.word_dropout < 1, f"family.word_dropout must be in [0, 1), not {self.word_dropout}")

    def networks(self, data: SentenceData, key: PRNGKeyArray) -> tuple[Amortised, Decoder]:
        """An encoder and a decoder for these sentences, both with random weights."""
        return _for_sentences(self, data.vocabulary, key)


@eqx.filter_jit
def _for_images(shape: ImageArchitecture, pixels: int, key: PRNGKeyArray) -> tuple[Amortised, ImageDecoder]:
    reader_key, encoder_key, decoder_key = jax.random.split(key, 3)
    before, after = shape.hidden[: shape.noise_layer], shape.hidden[shape.noise_layer - 1 :]
    reader = MixingNetwork.init((pixels, *before), shape.activation, jnp.ones(before[-1]), reader_key)
    sizes = (shape.latent_dim, *shape.decoder_hidden, pixels)
    decoder = ImageDecoder(MixingNetwork.init(sizes, shape.activation, jnp.ones(pixels), decoder_key))
    return shape.encoder(reader, after, encoder_key), decoder


@eqx.filter_jit
def _for_sentences(shape: TextArchitecture, words: int, key: PRNGKeyArray) -> tuple[Amortised, SentenceDecoder]:
    keys = jax.random.split(key, 5)
    width, first = shape.recurrent, shape.hidden[0]
    reading = Recurrent.init(words, shape.embedding, width, 0, keys[0])
    reader = SentenceReader(reading, xavier_normal(keys[1], (width, first)), jnp.zeros(first))
    writing = Recurrent.init(words, shape.embedding, width, shape.latent_dim, keys[2])
    decoder = SentenceDecoder(writing, xavier_normal(keys[3], (width, words)), jnp.zeros(words))
    return shape.encoder(reader, shape.hidden, keys[4]), decoder


@self_checking
@dataclass(frozen=True)
class ProblemSettings:
    """How a problem uses its data; an autoencoder has a batch, and it alone may have a warm-up."""

    batch: Annotated[int | None, "Rows of data that a step sees; none: all."] = None
    warm_up: Annotated[
        int | None, "Steps over which the KL to an autoencoder's prior gets its full weight; none: from the first."
    ] = None

    def __post_init__(self) -> None:
        check_settings(self, "problem")
        require(self.batch is None or self.batch >= 1, f"problem.batch must be at least 1, or none, not {self.batch}")
        enough = self.warm_up is None or self.warm_up >= 1
        require(enough, f"problem.warm_up must be at least 1, or none, not {self.warm_up}")


def make_problem(
    architecture: Architecture, source: Any, key: PRNGKeyArray, settings: ProblemSettings | None = None
) -> PosteriorProblem | AutoencoderProblem:
    """The problem before the first step, with random weights.

    `source` is a target, or the data of an autoencoder.
    """
    settings = settings or ProblemSettings()
    if not isinstance(architecture, Autoencoding):
        without = settings.warm_up is None
        require(without, "problem.warm_up is for autoencoders, whose prior is known: leave it at none")
        return PosteriorProblem(architecture.init(source.dim, key), source, settings.batch)
    require(settings.batch is not None, "an autoencoder sees a batch of data in each step: set problem.batch")
    encoder, decoder = architecture.networks(source, key)
    if isinstance(architecture, TextArchitecture):
        source = replace(source, dropout=architecture.word_dropout)
    return AutoencoderProblem(encoder, decoder, source, architecture.latent_dim, settings.batch or 1, settings.warm_up)
