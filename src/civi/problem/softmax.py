"""log softmax of chosen words, for the positions that hold a word only.

The words of a batch are packed into blocks of ROWS rows, and the loop over blocks ends at the last word. JAX cannot
differentiate a loop of unknown length backwards, so the backward pass is written out here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

ROWS = 128
KEPT_FLOATS = 2**26


def log_softmax_at(
    weight: Float[Array, "H V"],
    bias: Float[Array, " V"],
    hidden_N: Float[Array, "N H"],
    words_N: Int[Array, " N"],
    inside_N: Bool[Array, " N"],
) -> Float[Array, " N"]:
    """log softmax(hidden_n weight + bias) at words_n; 0 where inside_n is false.

    The logits are kept for the backward pass if they have at most KEPT_FLOATS floats, and recomputed otherwise.

    Args:
        weight: weights of the logits.
        bias: biases of the logits.
        hidden_N: hidden state at every position.
        words_N: word at every position.
        inside_N: whether a position holds a word.
    """
    rows = -(-len(words_N) // ROWS) * ROWS
    (place,) = jnp.nonzero(inside_N, size=rows, fill_value=len(words_N))
    return _packed(weight, bias, hidden_N, words_N, place.reshape(-1, ROWS), inside_N.sum())


@jax.custom_vjp
def _packed(
    weight: Array, bias: Array, hidden_N: Array, words_N: Array, place_BR: Int[Array, "B R"], count: Int[Array, ""]
) -> Float[Array, " N"]:
    """The log probabilities of the `count` words at place_BR; the entries of place_BR after them are out of range."""

    def add(i: Array, log_p_N: Array) -> Array:
        logit_RV = _rows(hidden_N, place_BR[i]) @ weight + bias
        return log_p_N.at[place_BR[i]].set(_chosen(logit_RV, words_N, place_BR[i])[0], mode="drop")

    return jax.lax.fori_loop(0, _blocks(count), add, jnp.zeros(len(words_N)))


def _forward(
    weight: Array, bias: Array, hidden_N: Array, words_N: Array, place_BR: Array, count: Array
) -> tuple[Array, tuple]:
    """The same; keeps the logits and their normalisers."""
    vocabulary, keeps = len(bias), place_BR.size * len(bias) <= KEPT_FLOATS

    def add(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        log_p_N, normaliser_BR, logit_BRV = carry
        logit_RV = _rows(hidden_N, place_BR[i]) @ weight + bias
        log_p_R, normaliser_R = _chosen(logit_RV, words_N, place_BR[i])
        log_p_N = log_p_N.at[place_BR[i]].set(log_p_R, mode="drop")
        logit_BRV = logit_BRV.at[i].set(logit_RV) if keeps else logit_BRV
        return log_p_N, normaliser_BR.at[i].set(normaliser_R), logit_BRV

    room = jnp.zeros((len(place_BR), ROWS, vocabulary) if keeps else ())
    start = jnp.zeros(len(words_N)), jnp.zeros(place_BR.shape), room
    log_p_N, normaliser_BR, logit_BRV = jax.lax.fori_loop(0, _blocks(count), add, start)
    return log_p_N, (weight, bias, hidden_N, words_N, place_BR, count, normaliser_BR, logit_BRV)


def _backward(kept: tuple, to_log_p_N: Float[Array, " N"]) -> tuple:
    """d log p_n / d logit_v = [v = word_n] - softmax_v."""
    weight, bias, hidden_N, words_N, place_BR, count, normaliser_BR, logit_BRV = kept

    def add(i: Array, sums: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        to_weight, to_bias, to_hidden_N = sums
        hidden_R = _rows(hidden_N, place_BR[i])
        logit_RV = logit_BRV[i] if logit_BRV.ndim else hidden_R @ weight + bias
        chosen_RV = jnp.arange(len(bias)) == _rows(words_N, place_BR[i])[:, None]
        slope_RV = chosen_RV - jnp.exp(logit_RV - normaliser_BR[i][:, None])
        to_logit_RV = _rows(to_log_p_N, place_BR[i])[:, None] * slope_RV
        to_hidden_N = to_hidden_N.at[place_BR[i]].set(to_logit_RV @ weight.T, mode="drop")
        return to_weight + hidden_R.T @ to_logit_RV, to_bias + to_logit_RV.sum(0), to_hidden_N

    zeros = jax.tree.map(jnp.zeros_like, (weight, bias, hidden_N))
    return *jax.lax.fori_loop(0, _blocks(count), add, zeros), None, None, None


_packed.defvjp(_forward, _backward)


def _blocks(count: Int[Array, ""]) -> Int[Array, ""]:
    """Number of blocks that hold `count` words."""
    return -(-count // ROWS)


def _rows(values_N: Array, place_R: Int[Array, " R"]) -> Array:
    """The values at these places; 0 for places out of range."""
    return values_N.at[place_R].get(mode="fill", fill_value=0)


def _chosen(
    logit_RV: Float[Array, "R V"], words_N: Int[Array, " N"], place_R: Int[Array, " R"]
) -> tuple[Float[Array, " R"], Float[Array, " R"]]:
    """log softmax at the words of these places, and the logarithms of the normalising constants."""
    normaliser_R = jax.nn.logsumexp(logit_RV, axis=-1)
    chosen_R = jnp.take_along_axis(logit_RV, _rows(words_N, place_R)[:, None], axis=-1)[:, 0]
    return chosen_R - normaliser_R, normaliser_R
