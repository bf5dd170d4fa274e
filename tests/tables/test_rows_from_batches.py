"""Rows from batches: the same rows as in memory in a private file, which is deleted, and errors that name the batch."""

import gc
import stat

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import civi
from civi.errors import DataError, OutputError, TargetError
from civi.problem.target.user import user_target
from civi.tables import batches as module
from civi.tables.rows import Rows, RowStream

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(230, 3)), RNG.integers(0, 5, 230)
SIZES = (1, 0, 60, 7, 150, 12)


def pieces():
    ends = np.cumsum(SIZES)
    return ((X[end - size : end], Y[end - size : end]) for size, end in zip(SIZES, ends, strict=True))


def all_rows(*rows):
    stream = RowStream.of(rows)
    return np.concatenate([stream.group(i) for i in range(len(stream.sizes))]), stream.sizes


@pytest.mark.parametrize("source", [pieces, pieces(), list(pieces())], ids=["function", "iterator", "list"])
def test_batches_give_their_rows_in_groups_of_equal_size(monkeypatch, tmp_path, source):
    monkeypatch.setattr(module, "GROUP_ROWS", 50)
    x, y = Rows.from_batches(source, tmp_path)
    assert (x.shape, y.shape, x.whole, y.whole) == (X.shape, Y.shape, False, True)
    found, sizes = all_rows(x, y)
    np.testing.assert_array_equal(found, np.column_stack([X, Y]).astype(np.float32))
    assert sizes.tolist() == [50, 50, 50, 50, 30]


def test_dicts_give_rows_by_name(tmp_path):
    found = Rows.from_batches(({"y": y > 2, "x": x[:, 0]} for x, y in pieces()), tmp_path)
    assert set(found) == {"x", "y"}
    np.testing.assert_array_equal(all_rows(found["y"])[0][:, 0], Y > 2)
    np.testing.assert_array_equal(all_rows(found["x"])[0][:, 0], X[:, 0].astype(np.float32))


def test_the_file_is_private_and_deleted_with_its_rows(tmp_path):
    x, y = Rows.from_batches(pieces, tmp_path)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    del x
    gc.collect()
    assert len(all_rows(y)[0]) == 230
    del y
    gc.collect()
    assert not list(tmp_path.iterdir())


def model(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", len(x), subsample_size=20) as i:
        numpyro.sample("y", dist.Poisson(np.e ** (x[i] @ beta)), obs=y[i])


def test_a_model_has_the_log_density_of_the_same_rows_in_memory(tmp_path):
    target, _ = user_target(model, Rows.from_batches(pieces, tmp_path), {}, None, None)
    z = np.array([0.1, -0.3, 0.2], np.float32)
    rate = X @ z
    factorial = np.cumsum(np.log(np.maximum(1, np.arange(5))))
    exact = (Y * rate - np.exp(rate) - factorial[Y]).sum() - 0.5 * (z**2).sum() - 1.5 * np.log(2 * np.pi)
    assert float(target.log_prob_on(target.values)(z)) == pytest.approx(exact, rel=1e-5)


def nothing():
    return iter(())


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (3, "must be an iterable or a function that returns one, not of type int"),
        (lambda size: pieces(), "must need no argument: missing a required argument: 'size'"),
        (nothing, "there are no batches"),
        ([(X[:0], Y[:0])], "the batches have no rows"),
        ({"x": X}, "batch 1 is of type str: give a tuple or a dict of arrays"),
        (X, "batch 1 is of type ndarray"),
        ([()], "batch 1: all arrays must have the same number of rows: it has no arrays"),
        ([(X, Y), (X, Y[1:])], "batch 2: .* array 0 has 230, array 1 has 229"),
        ([(X, Y), (X[:, 1:], Y)], r"batch 2: array 0 has rows of shape \(2,\), and not \(3,\)"),
        ([(X, Y), (X,)], "batch 2 has array 0, and not array 0, array 1"),
        ([{"x": X}, {"z": X}], "batch 2 has z, and not x"),
        ([(X, Y), (X, Y + 0.5)], "batch 2: array 1 has type float64, and whole numbers in the first batch"),
        ([(X,), (np.where(np.arange(230)[:, None] == 56, np.nan, X),)], "batch 2: array 0: row 57 is nan"),
        ([{"x": [1.0, 1e39]}], r"batch 1: x: row 2 is 1e\+39, which is not finite in float32"),
        ([{"x": [1, 2**24 + 1]}], "batch 1: x: row 2 is 16777217, which is above 16777216"),
        ([{"x": [1, -(2**63)]}], "batch 1: x: row 2 is -9223372036854775808"),
        ([{"x": ["a", "b"]}], "batch 1: x has type <U1, which is not a type of numbers"),
        ([{"x": [[1.0], [1.0, 2.0]]}], "batch 1: x is not an array"),
        ([{"x": np.ma.masked_less([1.0, -9.0], 0)}], "batch 1: x has missing"),
        ([{"x": np.zeros((2, 2, 2))}], r"batch 1: x has shape \(2, 2, 2\)"),
    ],
)
def test_bad_batches_are_named_in_one_line_and_leave_no_file(tmp_path, batches, message):
    with pytest.raises(DataError, match=message) as found:
        Rows.from_batches(batches, tmp_path)
    assert "\n" not in str(found.value)
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_source_stays_as_it_is_and_leaves_no_file(tmp_path):
    def broken():
        yield X, Y
        raise KeyError("connection")

    with pytest.raises(KeyError, match="connection"):
        Rows.from_batches(broken, tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="cannot be written to"):
        Rows.from_batches(pieces, tmp_path / "absent")


def test_an_iterator_in_place_of_data_is_refused():
    with pytest.raises(TargetError, match=r"the data x are an iterator.*civi.Rows.from_batches"):
        civi.fit(model, pieces(), Y, key=0)
