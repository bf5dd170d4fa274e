"""Sentences, and a recurrent encoder and decoder for them.

p(x | z) = prod_t Categorical(x_t; softmax(W h_t)), where the hidden state h_t depends on z and x_1 .. x_{t-1}
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.parts import constant, data_rows
from civi.problem.recurrent import Recurrent, State
from civi.problem.softmax import log_softmax_at

START = 0
Pooling = Literal["last", "mean", "max"]


class SentenceBatch(NamedTuple):
    """A batch of sentences as word indices, padded with 0.

    `decoder_input` holds the words that the decoder is given; it differs from `words` where words are dropped out.
    """

    words: Int[Array | np.ndarray, "J T"]
    decoder_input: Int[Array | np.ndarray, "J T"]
    length: Int[Array | np.ndarray, " J"]


class SentenceData(eqx.Module):
    """Sentences grouped into buckets by length, so that the sentences of a batch have similar lengths.

    In the decoder's input, each word is replaced by the word `unknown` with probability `dropout`.
    """

    words: Int[Array, "N T"] = data_rows()
    length: Int[Array, " N"] = constant()
    order: Int[Array, " N"] = constant()
    first: Int[Array, " B"] = constant()
    size: Int[Array, " B"] = constant()
    vocabulary: int = constant(static=True)
    unknown: int = constant(static=True)
    dropout: float = eqx.field(static=True, default=0.0)

    @classmethod
    def bucketed(
        cls, words: np.ndarray, length: np.ndarray, buckets: list[np.ndarray], vocabulary: int, unknown: int
    ) -> SentenceData:
        """The data set with these buckets.

        Args:
            words: word indices of every sentence, padded with 0.
            length: number of words of every sentence.
            buckets: the row indices of the sentences in each bucket.
            vocabulary: number of different words.
            unknown: index of the word that replaces dropped words.
        """
        size = np.array([len(rows) for rows in buckets])
        order, first = jnp.asarray(np.concatenate(buckets)), jnp.asarray(np.cumsum(size) - size)
        return cls(jnp.asarray(words), jnp.asarray(length), order, first, jnp.asarray(size), vocabulary, unknown)

    @property
    def rows(self) -> int:
        """Number of sentences."""
        return len(self.length)

    def batch(self, key: PRNGKeyArray, count: int) -> SentenceBatch:
        """Random rows of one bucket, drawn with probability proportional to its size: all rows are equally likely."""
        bucket_key, row_key, drop_key = jax.random.split(key, 3)
        bucket = jax.random.categorical(bucket_key, jnp.log(self.size))
        place = self.first[bucket] + jax.random.randint(row_key, (count,), 0, self.size[bucket])
        words, length = self.words[self.order[place]], self.length[self.order[place]]
        dropped = jax.random.bernoulli(drop_key, self.dropout, words.shape) if self.dropout else False
        return SentenceBatch(words, jnp.where(dropped, self.unknown, words), length)


class SentenceReader(eqx.Module):
    """Encoder features: a linear map of the LSTM's hidden states, of the last one, their mean or their maximum."""

    recurrent: Recurrent
    weight: Float[Array, "H F"]
    bias: Float[Array, " F"]
    pooling: Pooling = eqx.field(static=True, default="last")

    def __call__(self, x_J: SentenceBatch) -> Float[Array, "J F"]:
        """Features of every sentence."""
        length_J = jnp.asarray(x_J.length)
        hidden_TJ = self.recurrent.over(jnp.asarray(x_J.words), length_J.max())
        return self._pooled(hidden_TJ, length_J) @ self.weight + self.bias

    def _pooled(self, hidden_TJ: Float[Array, "T J H"], length_J: Int[Array, " J"]) -> Float[Array, "J H"]:
        """One vector per sentence."""
        if self.pooling == "last":
            return hidden_TJ[length_J - 1, jnp.arange(len(length_J))]
        inside_TJ = (jnp.arange(len(hidden_TJ))[:, None] < length_J)[..., None]
        if self.pooling == "max":
            return jnp.where(inside_TJ, hidden_TJ, -jnp.inf).max(0)
        return jnp.where(inside_TJ, hidden_TJ, 0.0).sum(0) / length_J[:, None]


class SentenceDecoder(eqx.Module):
    """An LSTM and a softmax over the vocabulary; z is an extra input of the gates, of the logits, of both or of none.

    The vocabulary includes an end-of-sentence word.
    """

    recurrent: Recurrent
    weight: Float[Array, "I V"]
    bias: Float[Array, " V"]
    to_gates: bool = eqx.field(static=True, default=True)
    to_logits: bool = eqx.field(static=True, default=False)

    def log_prob_each(self, x_J: SentenceBatch, z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """sum_t log p(x_t | x_1 .. x_{t-1}, z) over the words of each sentence, without the padding."""
        before_JT = jnp.pad(jnp.asarray(x_J.decoder_input)[:, :-1], ((0, 0), (1, 0)), constant_values=START)
        words_JT, length_J = jnp.asarray(x_J.words), jnp.asarray(x_J.length)
        input_TJ = self._with_latent(self.recurrent.over(before_JT, length_J.max(), self._further(z_J)), z_J)
        inside_TJ = jnp.arange(words_JT.shape[1])[:, None] < length_J
        input_N = input_TJ.reshape(-1, input_TJ.shape[-1])
        log_p_N = log_softmax_at(self.weight, self.bias, input_N, words_JT.T.ravel(), inside_TJ.ravel())
        return log_p_N.reshape(inside_TJ.shape).sum(0)

    def most_likely(self, z_J: Float[Array, "J D"], longest: int, never: tuple[int, ...] = ()) -> Int[Array, "J T"]:
        """Greedy decoding: at each position, the most likely word given the words before it.

        Args:
            z_J: latents.
            longest: number of words.
            never: words that are not chosen; neither is padding.
        """

        def step(carry: tuple[State, Array], _: None) -> tuple[tuple[State, Array], Array]:
            state = self.recurrent.advance(*carry, self._further(z_J))
            logit_J = self._with_latent(state.hidden_J, z_J) @ self.weight + self.bias
            word_J = jnp.argmax(logit_J.at[:, jnp.array([START, *never])].set(-jnp.inf), axis=1)
            return (state, word_J), word_J

        start = (self.recurrent.begin(len(z_J)), jnp.full(len(z_J), START))
        return jax.lax.scan(step, start, None, length=longest)[1].T

    def _further(self, z_J: Float[Array, "J D"]) -> Float[Array, "J D"] | None:
        """The extra input of the gates."""
        return z_J if self.to_gates else None

    def _with_latent(self, hidden: Float[Array, "*T J H"], z_J: Float[Array, "J D"]) -> Float[Array, "*T J I"]:
        """The input of the logits."""
        if not self.to_logits:
            return hidden
        return jnp.concatenate([hidden, jnp.broadcast_to(z_J, (*hidden.shape[:-1], z_J.shape[-1]))], axis=-1)
