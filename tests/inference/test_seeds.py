"""The words of a key: the same for a seed and its key, and independent for every path."""

import jax
import numpy as np

from civi.inference.arguments import as_words
from civi.inference.seeds import as_key, derived, generator, words_of


def test_a_seed_has_the_words_of_its_key():
    for seed in (0, 7, 2**31 - 1):
        np.testing.assert_array_equal(as_words(seed), words_of(jax.random.key(seed)))
        np.testing.assert_array_equal(as_words(np.int64(seed)), as_words(jax.random.PRNGKey(seed)))
    assert as_words(7).tolist() != as_words(8).tolist()
    assert words_of(jax.random.key(1, impl="rbg")).shape == (4,)


def test_every_path_has_its_own_words_and_the_same_ones_again():
    words = as_words(3)
    paths = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    found = [derived(words, *path) for path in paths] + [derived(as_words(4), 0)]
    assert len({tuple(one.tolist()) for one in found}) == len(found)
    np.testing.assert_array_equal(derived(words, 0, 1), found[4])
    assert all((one.shape, one.dtype) == ((4,), np.uint32) for one in found)


def test_they_make_a_key_and_a_generator():
    words = derived(as_words(3), 0)
    np.testing.assert_array_equal(jax.random.key_data(as_key(words)), words)
    first, again = generator(words).normal(size=5), generator(words).normal(size=5)
    np.testing.assert_array_equal(first, again)
    assert (generator(derived(as_words(3), 1)).normal(size=5) != first).all()
