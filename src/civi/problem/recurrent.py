"""An LSTM over the words of a batch, whose cost is that of the longest sentence and not of the padding.

The loops over positions end at the longest sentence of the batch, a number that is known only when the program runs.
JAX cannot differentiate such loops backwards, so the backward pass is written out here.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

POSITIONS = 8


class State(NamedTuple):
    """Hidden state and cell state of every sentence."""

    hidden_J: Float[Array, "J H"]
    cell_J: Float[Array, "J H"]


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

    def over(
        self, words_JT: Int[Array, "J T"], longest: Int[Array, ""], further_J: Float[Array, "J F"] | None = None
    ) -> Float[Array, "T J H"]:
        """The hidden state after every word, positions first; it is 0 from position `longest` on."""
        offset_J, width = self._offset(len(words_JT), further_J), self.embedding.shape[1]
        return _over(self.embedding, self.from_input[:width], self.from_hidden, offset_J, words_JT.T, longest)

    def advance(self, state: State, words_J: Int[Array, " J"], further_J: Float[Array, "J F"] | None = None) -> State:
        """The state after one more word of every sentence."""
        entering_J = self.embedding[words_J] @ self.from_input[: self.embedding.shape[1]]
        gates_J = self._offset(len(words_J), further_J) + entering_J + state.hidden_J @ self.from_hidden
        return _cell(gates_J, state.cell_J)

    def begin(self, count: int) -> State:
        """The state of `count` sentences before their first word: zero."""
        zeros = jnp.zeros((count, self.from_hidden.shape[0]))
        return State(zeros, zeros)

    def _offset(self, count: int, further_J: Float[Array, "J F"] | None) -> Float[Array, "J H4"]:
        """The part of the gates' pre-activations that is the same at every word."""
        if further_J is None:
            return jnp.broadcast_to(self.bias, (count, len(self.bias)))
        return self.bias + further_J @ self.from_input[self.embedding.shape[1] :]


def _cell(gates_J: Float[Array, "J H4"], cell_J: Float[Array, "J H"]) -> State:
    """The next state from the pre-activations of the gates and the last cell state."""
    enter, forget, value, leave = jnp.split(gates_J, 4, axis=-1)
    cell_J = jax.nn.sigmoid(forget) * cell_J + jax.nn.sigmoid(enter) * jnp.tanh(value)
    return State(jax.nn.sigmoid(leave) * jnp.tanh(cell_J), cell_J)


class _Saved(NamedTuple):
    """What the backward pass needs of every position: both states and the pre-activations of the gates."""

    hidden_TJ: Float[Array, "T J H"]
    cell_TJ: Float[Array, "T J H"]
    gates_TJ: Float[Array, "T J H4"]


@jax.custom_vjp
def _over(
    embedding: Array, from_input: Array, from_hidden: Array, offset_J: Array, words_TJ: Array, longest: Array
) -> Float[Array, "T J H"]:
    """The hidden states after the first `longest` words.

    gates_t = offset + embedding[word_t] from_input + hidden_{t-1} from_hidden
    """

    def step(t: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        (hidden_J, cell_J), hidden_TJ = carry
        gates_J = offset_J + embedding[words_TJ[t]] @ from_input + hidden_J @ from_hidden
        state = _cell(gates_J, cell_J)
        return state, hidden_TJ.at[t].set(state.hidden_J)

    start, zeros = _first(from_hidden, words_TJ)
    return jax.lax.fori_loop(0, longest, step, (start, zeros))[1]


def _forward(
    embedding: Array, from_input: Array, from_hidden: Array, offset_J: Array, words_TJ: Array, longest: Array
) -> tuple[Array, tuple]:
    """The same, with everything that the backward pass needs."""

    def step(t: Array, carry: tuple[State, _Saved]) -> tuple[State, _Saved]:
        (hidden_J, cell_J), saved = carry
        gates_J = offset_J + embedding[words_TJ[t]] @ from_input + hidden_J @ from_hidden
        state = _cell(gates_J, cell_J)
        return state, jax.tree.map(lambda all_T, now: all_T.at[t].set(now), saved, _Saved(*state, gates_J))

    start, zeros = _first(from_hidden, words_TJ)
    gates = jnp.zeros((*words_TJ.shape, from_hidden.shape[1]))
    saved = jax.lax.fori_loop(0, longest, step, (start, _Saved(zeros, zeros, gates)))[1]
    return saved.hidden_TJ, (embedding, from_input, from_hidden, words_TJ, longest, saved)


def _backward(kept: tuple, to_hidden_TJ: Float[Array, "T J H"]) -> tuple:
    """The gradients, position by position from the last to the first.

    The pre-activations in `saved` are replaced by their gradients, and the gradients of the weights are then products
    over blocks of positions.
    """
    embedding, from_input, from_hidden, words_TJ, longest, saved = kept

    def step(i: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        (to_hidden_J, to_cell_J), gates_TJ = carry
        t = longest - 1 - i
        before_J = jnp.where(t > 0, saved.cell_TJ[t - 1], 0.0)
        pull = jax.vjp(_cell, gates_TJ[t], before_J)[1]
        to_gates_J, to_cell_J = pull(State(to_hidden_J + to_hidden_TJ[t], to_cell_J))
        return State(to_gates_J @ from_hidden.T, to_cell_J), gates_TJ.at[t].set(to_gates_J)

    start, _ = _first(from_hidden, words_TJ)
    to_gates_TJ = jax.lax.fori_loop(0, longest, step, (start, saved.gates_TJ))[1]
    hidden_TJ = jnp.pad(saved.hidden_TJ[:-1], ((1, 0), (0, 0), (0, 0)))
    blocks = [_in_blocks(values) for values in (words_TJ, hidden_TJ, to_gates_TJ)]

    def add(i: Array, sums: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        words_N, hidden_N, to_gates_N = (values[i] for values in blocks)
        to_embedding, to_input, to_recurrent = sums
        to_embedding = to_embedding.at[words_N].add(to_gates_N @ from_input.T)
        return to_embedding, to_input + embedding[words_N].T @ to_gates_N, to_recurrent + hidden_N.T @ to_gates_N

    zeros = jax.tree.map(jnp.zeros_like, (embedding, from_input, from_hidden))
    sums = jax.lax.fori_loop(0, -(-longest // POSITIONS), add, zeros)
    return *sums, to_gates_TJ.sum(0), None, None


_over.defvjp(_forward, _backward)


def _first(from_hidden: Array, words_TJ: Array) -> tuple[State, Float[Array, "T J H"]]:
    """The state before the first word, and room for one hidden state per position; both are zero."""
    zeros_TJ = jnp.zeros((*words_TJ.shape, len(from_hidden)))
    return State(zeros_TJ[0], zeros_TJ[0]), zeros_TJ


def _in_blocks(values_TJ: Array) -> Array:
    """Blocks of POSITIONS positions, with all sentences: (blocks, POSITIONS J, ...), the last one filled up with 0."""
    room = [(0, -len(values_TJ) % POSITIONS), *[(0, 0)] * (values_TJ.ndim - 1)]
    return jnp.pad(values_TJ, room).reshape(-1, POSITIONS * values_TJ.shape[1], *values_TJ.shape[2:])
