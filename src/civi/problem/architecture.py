"""Architectures of autoencoders, and `make_problem`, which builds a problem from an architecture and a source."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from civi.errors import require
from civi.family.amortised import Amortised, Encoder, Reader
from civi.family.mixing import MixingNetwork, xavier_normal
from civi.family.noise import GaussianNoise
from civi.family.registry import CONDITIONALS
from civi.family.semi_implicit import Architecture, Conditioned, NoiseDim, Scale, Spread, check_scale
from civi.problem.autoencoder import AutoencoderProblem, Decoder
from civi.problem.images import ImageDecoder, Images
from civi.problem.posterior import PosteriorProblem
from civi.problem.recurrent import Recurrent
from civi.problem.sentences import Pooling, SentenceData, SentenceDecoder, SentenceReader
from civi.settings import check_settings, self_checking


@dataclass(frozen=True)
class Autoencoding(Architecture):
    """An encoder that maps x and noise to z in R^latent_dim, and a decoder that maps z to p(x | z)."""

    noise_dim: NoiseDim = 10
    conditional: Conditioned = "diagonal"
    scale: Scale = 1.0
    spread: Spread = 1.0
    latent_dim: Annotated[int, "Dimension of the latent vector z."] = 10
    noise_gain: Annotated[float, "Initial scale of the encoder's noise weights."] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.hidden) >= 1, "family.hidden needs at least one layer, because x and the noise enter there")
        known = self.mixing in ("network", "constant")
        require(known, f"family.mixing={self.mixing} is for a single posterior: autoencoders have network or constant")
        require(self.latent_dim >= 1, f"family.latent_dim must be at least 1, not {self.latent_dim}")
        check_scale("family.noise_gain", self.noise_gain)

    @abstractmethod
    def networks(self, data: Any, key: PRNGKeyArray) -> tuple[Amortised, Decoder]:
        """An encoder and a decoder for these data, both with random weights."""

    def encoder(self, reader: Reader, hidden: tuple[int, ...], key: PRNGKeyArray) -> Amortised:
        """The amortised family with this reader.

        Args:
            reader: maps a datum to features of width hidden[0], to which the projected noise is added.
            hidden: widths of the layers from the one that the noise enters to the last hidden one.
            key: draws the weights.
        """
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
    """The encoder and the decoder are multilayer perceptrons."""

    hidden: Annotated[tuple[int, ...], "Widths of the encoder's hidden layers."] = (200, 200)
    decoder_hidden: Annotated[tuple[int, ...], "Widths of the decoder's hidden layers."] = (200, 200)
    noise_layer: Annotated[int, "Hidden layer of the encoder, counted from 1, where the noise enters."] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.decoder_hidden
        require(all(n >= 1 for n in sizes), f"the widths in family.decoder_hidden must be at least 1, not {sizes}")
        layers = len(self.hidden)
        require(1 <= self.noise_layer <= layers, f"family.noise_layer must be 1 to {layers}, not {self.noise_layer}")

    def networks(self, data: Images, key: PRNGKeyArray) -> tuple[Amortised, Decoder]:
        """An encoder and a decoder for these images, both with random weights."""
        return _for_images(self, data.pixels.shape[1], key)


@dataclass(frozen=True)
class TextArchitecture(Autoencoding):
    """Encoder: embedding, LSTM, hidden layers. Decoder: embedding, LSTM with z as an extra input, softmax."""

    hidden: Annotated[tuple[int, ...], "Widths of the encoder's hidden layers after the LSTM."] = (256,)
    latent_dim: Annotated[int, "Dimension of the latent vector z."] = 20
    embedding: Annotated[int, "Dimension of the word embeddings."] = 256
    recurrent: Annotated[int, "Width of the LSTMs."] = 256
    pooling: Annotated[
        Pooling, "Which hidden states of its LSTM the encoder uses: the last, their mean or maximum."
    ] = "last"
    latent_input: Annotated[
        Literal["gates", "logits", "both", "none"],
        "Where z enters the decoder: the gates of the LSTM, the logits of the words, both, or nowhere.",
    ] = "gates"
    word_dropout: Annotated[float, "Fraction of the decoder's input words that are dropped in training."] = 0.0

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
    reader = SentenceReader(reading, xavier_normal(keys[1], (width, first)), jnp.zeros(first), shape.pooling)
    to_gates, to_logits = (shape.latent_input in (part, "both") for part in ("gates", "logits"))
    writing = Recurrent.init(words, shape.embedding, width, shape.latent_dim * to_gates, keys[2])
    inputs = width + shape.latent_dim * to_logits
    decoder = SentenceDecoder(writing, xavier_normal(keys[3], (inputs, words)), jnp.zeros(words), to_gates, to_logits)
    return shape.encoder(reader, shape.hidden, keys[4]), decoder


@self_checking
@dataclass(frozen=True)
class ProblemSettings:
    """How a problem uses its data. An autoencoder needs a batch size; only an autoencoder can weigh its KL term."""

    batch: Annotated[int | None, "Mini-batch size, in rows of data per step; none: all rows."] = None
    warm_up: Annotated[
        int | None, "Steps over which the weight of an autoencoder's KL term grows to kl_weight; none: no warm-up."
    ] = None
    kl_weight: Annotated[float, "Weight of an autoencoder's KL term in training; below 1, z carries more."] = 1.0

    def __post_init__(self) -> None:
        check_settings(self, "problem")
        require(self.batch is None or self.batch >= 1, f"problem.batch must be at least 1, or none, not {self.batch}")
        enough = self.warm_up is None or self.warm_up >= 1
        require(enough, f"problem.warm_up must be at least 1, or none, not {self.warm_up}")
        require(0 < self.kl_weight <= 1, f"problem.kl_weight must be in (0, 1], not {self.kl_weight}")

    def check_posterior(self) -> None:
        """Raise an error if a setting that only an autoencoder can use is set."""
        require(self.warm_up is None, "problem.warm_up is only for autoencoders: leave it at none")
        require(self.kl_weight == 1, "problem.kl_weight is only for autoencoders: leave it at 1")


def make_problem(
    architecture: Architecture, source: Any, key: PRNGKeyArray, settings: ProblemSettings | None = None
) -> PosteriorProblem | AutoencoderProblem:
    """The untrained problem, with random weights.

    Args:
        architecture: of the family; an `Autoencoding` makes an autoencoder, any other a posterior.
        source: a target, or the data of an autoencoder.
        key: draws the weights.
        settings: batch size, warm-up and weight of the KL; by default all data, no warm-up and weight 1.
    """
    settings = settings or ProblemSettings()
    if not isinstance(architecture, Autoencoding):
        settings.check_posterior()
        return PosteriorProblem(architecture.init(source.dim, key), source, settings.batch)
    require(settings.batch is not None, "an autoencoder sees a batch of data in each step: set problem.batch")
    encoder, decoder = architecture.networks(source, key)
    if isinstance(architecture, TextArchitecture):
        source = replace(source, dropout=architecture.word_dropout)
    sizes = architecture.latent_dim, settings.batch or 1
    return AutoencoderProblem(encoder, decoder, source, *sizes, settings.warm_up, settings.kl_weight)
