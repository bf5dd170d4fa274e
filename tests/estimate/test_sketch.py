"""The sketch is unbiased: in expectation every outer sample keeps its share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.estimate import Sketch
from montecarlo import agrees

SHARES = jnp.array([0.4, 0.0, 0.1, 0.3, 0.0, 0.2, 0.0])
DRAWN = np.flatnonzero(np.asarray(SHARES))


def spread_out(picked):
    """The picked shares at their positions, and zero elsewhere."""
    return jnp.zeros(len(SHARES)).at[picked.index_S].add(picked.share_S)


def many(sketch):
    keys = jax.random.split(jax.random.key(0), 4000)
    return jax.jit(jax.vmap(lambda key: sketch.pick(SHARES, key)))(keys)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("size", [1, 3])
def test_sketch_is_unbiased(form, size):
    picked = many(Sketch(form, size))
    sketched = np.asarray(jax.vmap(spread_out)(picked), np.float64)
    assert agrees(sketched[:, DRAWN], np.asarray(SHARES)[DRAWN])
    candidates = len(SHARES) if form == "dense" else len(DRAWN)
    without_factor = sketched * size / candidates
    assert not agrees(without_factor[:, DRAWN], np.asarray(SHARES)[DRAWN])


@pytest.mark.parametrize(("form", "only_drawn"), [("sparse", True), ("dense", False)])
def test_only_the_sparse_form_is_sure_to_pick_drawn_entries(form, only_drawn):
    picked = many(Sketch(form, 3))
    assert np.isin(picked.index_S, DRAWN).all() == only_drawn


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_entries_are_picked_without_repetition(form):
    sorted_rows = np.sort(many(Sketch(form, 3)).index_S, axis=1)
    assert (np.diff(sorted_rows, axis=1) > 0).all()


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("size", [7, 50])
def test_a_sketch_as_large_as_the_chunk_keeps_all_shares(form, size):
    picked = Sketch(form, size).pick(SHARES, jax.random.key(1))
    np.testing.assert_allclose(spread_out(picked), SHARES, rtol=1e-6)
    none = Sketch("none", size).pick(SHARES, jax.random.key(1))
    np.testing.assert_array_equal(none.index_S, np.arange(7))
    np.testing.assert_array_equal(none.share_S, SHARES)


def test_a_sparse_sketch_larger_than_the_number_drawn_keeps_all_shares():
    picked = Sketch("sparse", 5).pick(SHARES, jax.random.key(1))
    np.testing.assert_allclose(spread_out(picked), SHARES, rtol=1e-6)


@pytest.mark.parametrize(
    ("form", "size", "message"),
    [("thin", 3, "must be one of none, dense, sparse, not 'thin'"), ("dense", 0, "at least 1")],
)
def test_impossible_sketches_are_refused(form, size, message):
    with pytest.raises(SettingError, match=message):
        Sketch(form, size)
