"""A counter-based random generator of few operations, for programs that are compiled for one fit and run briefly.

Element i of the random bits of a key (k_0, ..., k_3) is a word of h(i + k_0, k_1, k_2, k_3). The hash h is pcg4d of
Jarzynski and Olano (2020, "Hash functions for GPU rendering"). JAX's generators take ten rounds of 64-bit products
or twenty rounds of 32-bit operations, which a training program would compile eight times.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import Array, UInt, UInt32

SPLIT, FOLD = 0x9E3779B9, 0x85EBCA6B  # added to a word of the key, so that new keys are unrelated to its random bits


def _hash(x: Array, y: Array, z: Array, w: Array) -> tuple[Array, Array, Array, Array]:
    """pcg4d: four words from four words."""
    x, y, z, w = (v * jnp.uint32(1664525) + jnp.uint32(1013904223) for v in (x, y, z, w))
    x, y, z, w = _cross(x, y, z, w)
    return _cross(*(v ^ (v >> 16) for v in (x, y, z, w)))


def _cross(x: Array, y: Array, z: Array, w: Array) -> tuple[Array, Array, Array, Array]:
    x = x + y * w
    y = y + z * x
    z = z + x * y
    return x, y, z, w + y * z


def _seed(seed: Array) -> UInt32[Array, " 4"]:
    low = jnp.asarray(seed).astype(jnp.uint32)
    return jnp.stack(_hash(low, jnp.uint32(SPLIT), jnp.uint32(FOLD), jnp.uint32(1)))


def _split(key: UInt32[Array, " 4"], shape: tuple[int, ...]) -> UInt32[Array, "*shape 4"]:
    number = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    words = _hash(key[0] + number, key[1], key[2] + jnp.uint32(SPLIT), key[3])
    return jnp.stack(words, axis=-1).reshape(*shape, 4)


def _fold_in(key: UInt32[Array, " 4"], data: Any) -> UInt32[Array, " 4"]:
    return jnp.stack(_hash(key[0], key[1] + jnp.asarray(data).astype(jnp.uint32), key[2], key[3] + jnp.uint32(FOLD)))


def _random_bits(key: UInt32[Array, " 4"], bit_width: int, shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    size = math.prod(shape) * max(1, bit_width // 32)
    counter = jnp.arange(-(-size // 4), dtype=jnp.uint32)
    bits = jnp.concatenate(_hash(counter + key[0], key[1], key[2], key[3]))[:size]
    if bit_width == 64:
        high, low = jnp.split(bits.astype(jnp.uint64), 2)
        return ((high << 32) | low).reshape(shape)
    return (bits >> (32 - bit_width)).astype(f"uint{bit_width}").reshape(shape)


COUNTER_BASED = define_prng_impl(
    key_shape=(4,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="civi_counter_based",
    tag="ccb",
)
