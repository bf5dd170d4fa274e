"""civi.fit of a model whose rows are read from disk gives the posterior of the same data in memory."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import civi
import streams
from civi.errors import DataError, TargetError
from civi.inference.pilot.slopes import SlopesByPasses
from civi.problem.target.user import user_target
from civi.tables.rows import Rows, RowStream

ROWS, SAMPLE = 730, 100


def model(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 5).expand([2]).to_event(1))
    with numpyro.plate("rows", len(x), subsample_size=50) as i:
        numpyro.sample("y", dist.Bernoulli(logits=x[i] @ slope), obs=y[i])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2)).astype(np.float32)
    return x, (rng.random(ROWS) < 1 / (1 + np.exp(-x @ [1.0, -0.5]))).astype(np.int32)


@pytest.fixture(scope="module")
def table(data, tmp_path_factory):
    frame = pd.DataFrame({"a": data[0][:, 0], "b": data[0][:, 1], "y": data[1]})
    return streams.write(tmp_path_factory.mktemp("rows") / "table.parquet", frame, 60)


@pytest.fixture(scope="module")
def given(table):
    return Rows(table, ["a", "b"]), Rows(table, "y")


@pytest.fixture(scope="module")
def targets(given, data):
    """The model on the table, with a sample of 100 rows, and on the data in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowStream.sample, "__defaults__", (0, SAMPLE))
        streamed = user_target(model, given, {}, None, None)[0]
    return streamed, user_target(model, data, {}, None, None)[0]


def test_rows_have_the_shape_of_the_table(given, data):
    assert (given[0].shape, given[1].shape, len(given[0])) == (data[0].shape, data[1].shape, ROWS)
    assert (given[0].whole, given[1].whole) == (False, True)


def test_passes_over_the_table_give_log_p_and_its_gradient(targets):
    streamed, exact = targets
    z = np.array([[0.3, -0.2], [1.0, 0.5]])
    log_p, slope = SlopesByPasses(streamed, 2).at(z, np.ones((2, 0)))
    expected = [jax.value_and_grad(exact.log_prob)(jnp.asarray(point, jnp.float32)) for point in z]
    np.testing.assert_allclose(log_p, [value for value, _ in expected], rtol=1e-5)
    np.testing.assert_allclose(slope, [gradient for _, gradient in expected], rtol=1e-3, atol=1e-2)


def test_a_log_density_is_zero_at_the_origin_and_unbiased_over_batches(targets):
    streamed, exact = targets
    moved = streamed.moved(np.array([0.5, 0.0], np.float32), -400.25)
    assert moved.offset == -400.25
    assert float(moved.log_prob(moved.origin)) == 0.0
    z = jnp.array([0.0, 0.3])
    grads = jax.jit(lambda one, keys: jax.lax.map(lambda key: jax.grad(one.batch(key, 50).log_prob)(z), keys))
    found = []
    for seed in range(6):
        with moved.feed(seed, 50) as feed:
            found.append(grads(replace(moved, window=feed.at(0)[0]), jax.random.split(jax.random.key(seed), 300)))
    found = np.concatenate(found)
    error = found.std(0) / np.sqrt(len(found))
    expected = np.asarray(jax.grad(exact.log_prob)(z))
    assert (np.abs(found.mean(0) - expected) < 4.5 * error + 1e-3 * np.abs(expected)).all()
    assert (np.abs(1.2 * found.mean(0) - expected) > 4.5 * error).any()


def test_a_fit_agrees_with_the_data_in_memory(given, targets):
    """The pilot is corrected on all rows; its sample of 100 rows alone would be off by about a standard deviation."""
    with pytest.warns(UserWarning, match="has not converged"):
        posterior = civi.fit(model, *given, key=0, steps=40, runs=1, progress=False)
    exact = targets[1]
    mode = jnp.zeros(2)
    for _ in range(8):
        mode = mode - jnp.linalg.solve(jax.hessian(exact.log_prob)(mode), jax.grad(exact.log_prob)(mode))
    sd = np.sqrt(np.diagonal(np.linalg.inv(-np.asarray(jax.hessian(exact.log_prob)(mode)))))
    draws = posterior.sample(1, 2000)["slope"]
    assert (np.abs(draws.mean(0) - mode) < 0.25 * sd).all()
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.2)
    laplace = float(exact.log_prob(mode)) + np.log(2 * np.pi * np.prod(sd))
    assert posterior.elbo(0).value == pytest.approx(laplace, abs=0.5)


def test_what_cannot_be_streamed_is_an_error(given, table, tmp_path):
    def without_plate(x, y):
        slope = numpyro.sample("slope", dist.Normal(0, 5).expand([2]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x[:10] @ slope), obs=y[:10])

    with pytest.raises(TargetError, match="no plate over the rows of the table that subsamples"):
        user_target(without_plate, given, {}, None, None)
    with pytest.raises(TargetError, match="by a NumPyro model only"):
        civi.fit(lambda z, x: -(z**2).sum(), given[0], dim=1, key=0)
    with pytest.raises(TargetError, match="use them inside the model"):
        given[0][0]
    with pytest.raises(DataError, match="unknown column 'c'"):
        Rows(table, "c")
    other = streams.write(tmp_path / "other.parquet", streams.frame(50))
    with pytest.raises(DataError, match="must be of one table"):
        user_target(model, (given[0], Rows(other, "age")), {}, None, None)
    spoilt = streams.frame(100)
    spoilt.loc[56, "age"] = np.inf
    bad = streams.write(tmp_path / "bad.parquet", spoilt)
    with pytest.raises(DataError, match=r"row 57: age is inf"):
        user_target(model, (Rows(bad, ["age", "dose"]), Rows(bad, "age")), {}, None, None)


def test_values_that_float32_or_whole_numbers_cannot_hold_are_named(tmp_path):
    frame = streams.frame(100).assign(count=np.arange(100))
    frame.loc[56, "age"] = 1e39
    path = streams.write(tmp_path / "table.parquet", frame)
    with pytest.raises(DataError, match=r"row 57: age is too large for float32"):
        RowStream.of([Rows(path, "age")]).sample()
    (tmp_path / "parts").mkdir()
    for place, values in {"a": np.arange(10), "b": np.arange(10) + 0.5}.items():
        streams.write(tmp_path / "parts" / f"{place}.csv", pd.DataFrame({"count": values}))
    with pytest.raises(DataError, match=r"b.csv: row 1: count is not a whole number as in the first rows"):
        RowStream.of([Rows(tmp_path / "parts", "count")]).sample()
