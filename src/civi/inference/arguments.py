"""Arguments of the public functions, checked before anything is computed."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from civi.errors import CALLED_IN_JIT, SettingError, require
from civi.inference.seeds import Words, words_of

KeyOrSeed = PRNGKeyArray | int
MAX_COUNT = 2**31 - 1


def as_key(key: Any) -> PRNGKeyArray:
    """A random key from a key, or from a whole number as its seed.

    Args:
        key: a key of `jax.random.key`, an array of `jax.random.PRNGKey`, or a seed.
    """
    if isinstance(key, Integral) and not isinstance(key, bool):
        return jax.random.key(_seed(key))
    if isinstance(key, jax.core.Tracer):
        raise SettingError(CALLED_IN_JIT)
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        require(key.ndim == 0, f"give one random key, not an array of shape {key.shape}")
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.ndim == 1:
        return jax.random.wrap_key_data(key)
    raise SettingError(f"key must be a random key such as jax.random.key(0), or a whole number, not {_shown(key)}")


def as_words(key: Any) -> Words:
    """The words of a random key, or of the key with this whole number as its seed; compiles nothing."""
    if isinstance(key, Integral) and not isinstance(key, bool):
        return np.array([0, _seed(key)], np.uint32)
    return words_of(as_key(key))


def _seed(key: Integral) -> int:
    seed = int(key)
    require(0 <= seed <= MAX_COUNT, f"a seed must be from 0 to {MAX_COUNT}, not {seed}")
    return seed


def check_count(name: str, value: Any, smallest: int = 1) -> None:
    """Refuse a number of draws, steps or dimensions that is not a whole number from `smallest` on."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    require(whole, f"{name} must be a whole number, not {_shown(value)}")
    require(smallest <= value <= MAX_COUNT, f"{name} must be from {smallest} to {MAX_COUNT}, not {value}")


def check_positive(name: str, value: Any) -> None:
    """Refuse a number that is not positive, such as a time limit."""
    require(isinstance(value, Real), f"{name} must be a number, not {_shown(value)}")
    require(value > 0, f"{name} must be positive, not {value}")


def _shown(value: Any) -> str:
    return "None" if value is None else f"{value!r} (a {type(value).__name__})"
