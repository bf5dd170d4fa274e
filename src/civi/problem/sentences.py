"""Sentences, and a recurrent encoder and decoder for them.

p(x | z) = prod_t Categorical(x_t; softmax(W h_t)), where the hidden state h_t depends on z and x_1 .. x_{t-1}
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.parts import constant, data_rows

START, WORDS = 0, 8


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


class Recurrent(eqx.Module):
    """An LSTM over embedded words, optionally with extra inputs that are the same at every word."""

    embedding: Float[Array, "V I"]
    from_input: Float[Array, "C H4"]
    from_hidden: Float[Array, "H H4"]
    bias: Float[Array, " H4"]

    @classmethod
    def init(cls, vocabulary: int, width: int, hidden: int, further: int, key: PRNGKeyArray) -> Recurrent:
        """Uniform weights in +-1 / sqrt(hidden), embeddings N(0, 0.1^2), forget-gate biases 1.

        Args:
            vocabulary: number of different words.
            width: dimension of the embeddings.
            hidden: dimension of the hidden state.
            further: dimension of the extra inputs.
            key: draws the weights.
        """
        keys = jax.random.split(key, 3)
        bound = hidden**-0.5
        return cls(
            0.1 * jax.random.normal(keys[0], (vocabulary, width)),
            jax.random.uniform(keys[1], (width + further, 4 * hidden), minval=-bound, maxval=bound),
            jax.random.uniform(keys[2], (hidden, 4 * hidden), minval=-bound, maxval=bound),
            jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0),
        )

    def gates(self, words: Int[Array, "*#N"], further: Float[Array, "*#N F"] | None = None) -> Float[Array, "*#N H4"]:
        """Contribution of the words and the extra inputs to the gates' pre-activations."""
        width = self.embedding.shape[1]
        added = self.embedding[words] @ self.from_input[:width] + self.bias
        return added if further is None else added + further @ self.from_input[width:]

    def advance(self, state: State, gates_J: Float[Array, "J H4"]) -> State:
        """The state after one more word."""
        enter, forget, value, leave = jnp.split(gates_J + state.hidden_J @ self.from_hidden, 4, axis=-1)
        cell_J = jax.nn.sigmoid(forget) * state.cell_J + jax.nn.sigmoid(enter) * jnp.tanh(value)
        return State(jax.nn.sigmoid(leave) * jnp.tanh(cell_J), cell_J)

    def over(self, gates_JT: Float[Array, "J T H4"], inside_JT: Bool[Array, "J T"]) -> Float[Array, "J T H"]:
        """The hidden state after every word; positions beyond the end of every sentence are skipped."""

        def step(state: State, now: tuple[Array, Array]) -> tuple[State, Array]:
            gates_J, inside_J = now
            state = jax.lax.cond(inside_J.any(), lambda old: self.advance(old, gates_J), lambda old: old, state)
            return state, state.hidden_J

        start = self.begin(len(gates_JT))
        return jax.lax.scan(step, start, (jnp.moveaxis(gates_JT, 1, 0), inside_JT.T))[1].swapaxes(0, 1)

    def begin(self, count: int) -> State:
        """The state of `count` sentences before their first word: zero."""
        zeros = jnp.zeros((count, self.from_hidden.shape[0]))
        return State(zeros, zeros)


class State(NamedTuple):
    """Hidden state and cell state of every sentence."""

    hidden_J: Float[Array, "J H"]
    cell_J: Float[Array, "J H"]


class SentenceReader(eqx.Module):
    """Encoder features: a linear map of the LSTM's hidden state after the last word."""

    recurrent: Recurrent
    weight: Float[Array, "H F"]
    bias: Float[Array, " F"]

    def __call__(self, x_J: SentenceBatch) -> Float[Array, "J F"]:
        """Features of every sentence."""
        hidden_JT = self.recurrent.over(self.recurrent.gates(jnp.asarray(x_J.words)), _inside(x_J))
        last_J = jnp.take_along_axis(hidden_JT, (jnp.asarray(x_J.length) - 1)[:, None, None], axis=1)[:, 0]
        return last_J @ self.weight + self.bias


class SentenceDecoder(eqx.Module):
    """An LSTM with z as extra input at every word, and a softmax over the vocabulary.

    The vocabulary includes an end-of-sentence word.
    """

    recurrent: Recurrent
    weight: Float[Array, "H V"]
    bias: Float[Array, " V"]

    def log_prob_each(self, x_J: SentenceBatch, z_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """sum_t log p(x_t | x_1 .. x_{t-1}, z) over the words of each sentence, without the padding."""
        before_JT = jnp.pad(x_J.decoder_input[:, :-1], ((0, 0), (1, 0)), constant_values=START)
        inside_JT = _inside(x_J)
        hidden_JT = self.recurrent.over(self.recurrent.gates(before_JT, z_J[:, None]), inside_JT)
        return self._log_prob_of_words(hidden_JT, jnp.asarray(x_J.words), inside_JT)

    def _log_prob_of_words(
        self, hidden_JT: Float[Array, "J T H"], words_JT: Int[Array, "J T"], inside_JT: Bool[Array, "J T"]
    ) -> Float[Array, " J"]:
        """Process WORDS positions at a time, and recompute their logits in the backward pass to save memory."""

        @jax.checkpoint
        def score(hidden_JW: Array, words_JW: Array, inside_JW: Array) -> Array:
            logit_JW = hidden_JW @ self.weight + self.bias
            chosen_JW = jnp.take_along_axis(logit_JW, words_JW[..., None], axis=-1)[..., 0]
            return jnp.where(inside_JW, chosen_JW - jax.nn.logsumexp(logit_JW, axis=-1), 0.0).sum(1)

        def add(log_p_J: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
            more = jax.lax.cond(block[2].any(), score, lambda *_: jnp.zeros_like(log_p_J), *block)
            return log_p_J + more, None

        blocks = _in_blocks(hidden_JT, WORDS), _in_blocks(words_JT, WORDS), _in_blocks(inside_JT, WORDS)
        return jax.lax.scan(add, jnp.zeros(len(words_JT)), blocks)[0]

    def most_likely(self, z_J: Float[Array, "J D"], longest: int) -> Int[Array, "J T"]:
        """Greedy decoding: at each position, the most likely word given the words before it."""

        def step(carry: tuple[State, Array], _: None) -> tuple[tuple[State, Array], Array]:
            state, before_J = carry
            state = self.recurrent.advance(state, self.recurrent.gates(before_J, z_J))
            word_J = jnp.argmax((state.hidden_J @ self.weight + self.bias).at[:, START].set(-jnp.inf), axis=1)
            return (state, word_J), word_J

        start = (self.recurrent.begin(len(z_J)), jnp.full(len(z_J), START))
        return jax.lax.scan(step, start, None, length=longest)[1].T


def _inside(x_J: SentenceBatch) -> Bool[Array, "J T"]:
    """True at positions that hold a word, False at padding."""
    return jnp.arange(x_J.words.shape[1]) < x_J.length[:, None]


def _in_blocks(values_JT: Array, width: int) -> Array:
    """Split the second axis into blocks: (blocks, J, width, ...). The last block is padded with zeros."""
    places = values_JT.shape[1]
    room = [(0, 0), (0, -places % width), *[(0, 0)] * (values_JT.ndim - 2)]
    blocks = jnp.pad(values_JT, room).reshape(len(values_JT), -1, width, *values_JT.shape[2:])
    return jnp.moveaxis(blocks, 1, 0)
