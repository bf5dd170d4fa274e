"""Randomness of a fit: everything is drawn from the words of the user's key.

Deriving keys in NumPy compiles nothing, unlike `jax.random.split`.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, UInt32

from civi.inference.counter_based import COUNTER_BASED

Words = UInt32[np.ndarray, " _"]


def words_of(key: PRNGKeyArray) -> Words:
    """The words of a random key."""
    return np.asarray(jax.random.key_data(key), np.uint32).reshape(-1)


def derived(words: Words, *path: int) -> Words:
    """Words that are independent for each path, such as (purpose, number of the run). They make a key with `as_key`."""
    return np.random.SeedSequence(words.tolist(), spawn_key=path).generate_state(4)


def threefry(words: Words) -> PRNGKeyArray:
    """A key of JAX's default generator from the first two words."""
    return jax.random.wrap_key_data(jax.device_put(np.asarray(words[:2], np.uint32)))


def generator(words: Words) -> np.random.Generator:
    """NumPy's generator with these words as its seed."""
    return np.random.default_rng(words.tolist())


def as_key(words: Any) -> PRNGKeyArray:
    """Four words as a key of a generator that compiles quickly, inside of a compiled program."""
    return jax.random.wrap_key_data(words, impl=COUNTER_BASED)
