"""The pool: which noise is in the chunk at each step, and how often nu draws each sample."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.errors import SettingError
from civi.family import Outer
from civi.tracker import Pool
from montecarlo import agrees

KEY = jax.random.key(7)


def draw_outer(key, count):
    """Noise that identifies its key (integer part) and its position (fractional part)."""
    eps = jax.random.key_data(key)[-1] % 10_000 + jnp.arange(count) / count
    return Outer(eps[:, None], eps[:, None])


def walk(pool: Pool, steps: int):
    """The eps of every chunk, with one row per step and the initial chunk first, and the masks of new samples."""
    state = pool.init(draw_outer, KEY)
    advance = jax.jit(lambda state: pool.advance(state, draw_outer, KEY))
    chunks, masks = [state.outer.eps[:, 0]], []
    for _ in range(steps):
        state, new_J = advance(state)
        chunks.append(state.outer.eps[:, 0])
        masks.append(new_J)
    return np.array(chunks), np.array(masks)


def positions(masks):
    return [np.flatnonzero(mask).tolist() for mask in masks]


def many_shares(pool: Pool, count: int, most: int):
    keys = jax.random.split(jax.random.key(0), 500)
    return np.asarray(jax.jit(jax.vmap(lambda key: pool.shares(jnp.asarray(count), most, key)))(keys), np.float64)


def counts_are_multinomial(counts) -> bool:
    """Two-sided test of Pearson's chi-squared statistic, summed over independent rows."""
    expected = counts.sum(1, keepdims=True) / counts.shape[1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    below = stats.chi2(counts.shape[0] * (counts.shape[1] - 1)).cdf(statistic)
    return 1e-5 < below < 1 - 1e-5


def test_draw_each_gives_equal_shares():
    np.testing.assert_allclose(Pool(chunk=5).shares(jnp.asarray(5), 5, KEY), 0.2, rtol=1e-6)


def test_draw_uniform_gives_the_shares_of_multinomial_counts():
    shares = many_shares(Pool(chunk=6, draw="uniform"), count=20, most=30)
    counts = shares * 20
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(counts, counts.round(), atol=1e-5)
    assert agrees(shares, 1 / 6)
    assert not agrees(shares * 30 / 20, 1 / 6)
    assert counts_are_multinomial(counts.round())


def test_more_regular_or_more_clustered_counts_are_not_multinomial():
    counts = many_shares(Pool(chunk=6, draw="uniform"), count=20, most=30) * 20
    assert not counts_are_multinomial((counts + 20 / 6) / 2)
    assert not counts_are_multinomial(2 * counts)


def test_the_chunk_is_switched_after_the_steps_asked_for():
    chunks, masks = walk(Pool(chunk=4, switch_every=3), 7)
    assert masks.all(axis=1).tolist() == masks.any(axis=1).tolist() == [False, False, True, False, False, True, False]
    np.testing.assert_array_equal((chunks[1:] != chunks[:-1]), masks)


@pytest.mark.parametrize(
    ("chunk", "renew", "expected"),
    [
        (8, 0.25, [[0, 1], [2, 3], [4, 5], [6, 7], [0, 1]]),
        (6, 0.5, [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [0, 1, 2]]),
        (4, 1.0, [[0, 1, 2, 3]] * 5),
        (3, 0.1, [[0], [1], [2], [0], [1]]),
    ],
)
def test_a_part_of_the_chunk_is_replaced_in_turn(chunk, renew, expected):
    chunks, masks = walk(Pool(chunk=chunk, renew=renew), 5)
    assert positions(masks) == expected
    np.testing.assert_array_equal((chunks[1:] != chunks[:-1]), masks)


def test_a_part_that_does_not_divide_the_chunk_goes_round_it():
    chunks, masks = walk(Pool(chunk=10, renew=0.3), 10)
    replaced = [position for mask in masks for position in np.flatnonzero(mask)]
    np.testing.assert_array_equal(np.bincount(replaced), 3)
    np.testing.assert_array_equal((chunks[1:] != chunks[:-1]), masks)


def test_a_finite_pool_repeats_itself_and_an_endless_one_does_not():
    finite, _ = walk(Pool(size=12, chunk=4), 6)
    np.testing.assert_array_equal(finite[:4], finite[3:])
    assert len(np.unique(finite)) == 12
    endless, _ = walk(Pool(chunk=4), 6)
    assert len(np.unique(endless)) == endless.size


@pytest.mark.parametrize(("size", "chunk", "renew"), [(12, 4, 0.5), (12, 4, 1.0), (12, 12, 0.25)])
def test_a_finite_pool_holds_as_many_samples_as_its_size_and_none_twice_in_a_chunk(size, chunk, renew):
    chunks, _ = walk(Pool(size=size, chunk=chunk, renew=renew), 12)
    assert len(np.unique(chunks)) == size
    assert all(len(np.unique(row)) == chunk for row in chunks)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "pool.size must be at least 1, or none, not 0"),
        ({"chunk": -1}, "pool.chunk must be at least 1, or none, not -1"),
        ({"size": 10, "chunk": 4}, r"must be multiples of the 4 samples that are replaced at a time"),
        ({"size": 12, "chunk": 10, "renew": 0.3}, r"must be multiples of the 3 samples"),
        ({"size": 10, "chunk": 11}, r"pool.chunk \(11\) is larger than the pool \(10\)"),
        ({"switch_every": 0}, "pool.switch_every must be at least 1, or none, not 0"),
        ({"renew": 0.0}, r"pool.renew must be in \(0, 1\]"),
        ({"renew": 1.5}, r"pool.renew must be in \(0, 1\]"),
        ({"draw": "all"}, "pool.draw must be one of each, uniform, not 'all'"),
    ],
)
def test_impossible_pools_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        Pool(**settings)
