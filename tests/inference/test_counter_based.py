"""The counter-based generator: uniform bits, normal draws, independent keys; a weaker hash is rejected."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.inference import counter_based
from civi.inference.seeds import as_key

COUNT, LIMIT = 400_000, 1e-4
KEYS = ([1, 2, 3, 4], [0, 0, 0, 0], [2**32 - 1] * 4)


def key_of(words):
    return as_key(jnp.asarray(words, jnp.uint32))


def p_of_bytes(bits, shift):
    """The p-value of uniformity of one byte of each word."""
    return stats.chisquare(np.bincount((np.asarray(bits) >> shift) & 255, minlength=256)).pvalue


def p_of_neighbours(bits):
    """The p-value of uniformity of the leading five bits of two neighbours."""
    high = np.asarray(bits) >> 27
    return stats.chisquare(np.bincount(32 * high[:-1].astype(int) + high[1:], minlength=1024)).pvalue


@pytest.mark.parametrize("words", KEYS)
def test_bits_are_uniform_and_neighbours_independent(words):
    bits = jax.random.bits(key_of(words), (COUNT,))
    assert min(p_of_bytes(bits, shift) for shift in (0, 8, 16, 24)) > LIMIT
    assert p_of_neighbours(bits) > LIMIT


def test_half_of_the_hash_is_rejected():
    counter = jnp.arange(COUNT, dtype=jnp.uint32)
    weak = counter_based._cross(counter, *(jnp.full(COUNT, k, jnp.uint32) for k in (2, 3, 4)))[0]
    assert min(p_of_bytes(weak, 24), p_of_neighbours(weak)) < LIMIT


def test_normal_draws_have_the_moments_of_a_normal():
    draws = np.asarray(jax.random.normal(key_of(KEYS[0]), (COUNT,)), float)
    moments = draws.mean(), draws.var() - 1, (draws**3).mean(), (draws**4).mean() - 3
    errors = np.sqrt(np.array([1, 2, 15, 96]) / COUNT)
    assert (np.abs(moments) < 4 * errors).all()
    assert stats.kstest(draws[:20_000], "norm").pvalue > LIMIT


@pytest.mark.parametrize("derive", ["fold_in", "split"])
def test_derived_keys_are_independent(derive):
    key, count = key_of(KEYS[0]), 100_000
    many = jax.random.split(key, count) if derive == "split" else jax.vmap(lambda t: jax.random.fold_in(key, t))
    keys = many if derive == "split" else many(jnp.arange(count))
    draws = np.asarray(jax.jit(jax.vmap(lambda one: jax.random.normal(one, (4,))))(keys), float)
    beside = np.concatenate([draws[:-1], draws[1:]], axis=1)
    off = np.corrcoef(beside, rowvar=False)[~np.eye(8, dtype=bool)]
    assert np.abs(off).max() < 4.5 / np.sqrt(count)
    assert len(np.unique(jax.random.key_data(keys), axis=0)) == count


def test_other_widths_of_bits():
    with jax.enable_x64(True):
        wide = np.asarray(jax.random.bits(key_of(KEYS[0]), (1001,), "uint64"))
    narrow = np.asarray(jax.random.bits(key_of(KEYS[0]), (1001,), "uint8"))
    assert len(np.unique(wide)) == 1001
    assert stats.kstest(wide / 2.0**64, "uniform").pvalue > LIMIT
    assert stats.kstest((narrow + 0.5) / 256, "uniform").pvalue > LIMIT
