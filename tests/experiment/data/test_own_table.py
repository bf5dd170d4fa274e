"""The user's own table: every format gives the same regression, and large ones are streamed."""

import numpy as np
import pytest

import streams
from civi.errors import DataError, SettingError
from civi.experiment.data import own_table
from civi.experiment.data.own_table import OwnTable
from civi.experiment.plan import Plan
from civi.experiment.tasks import find_task


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    for suffix in ("csv", "parquet", "arrow"):
        streams.write(made / f"table.{suffix}", streams.frame())
    return made


def arrays(table):
    data = table.load()
    return data.x_train, data.y_train, data.x_test, data.y_test


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_small_table_is_the_same_in_every_format(folder, suffix):
    text, other = (OwnTable.open(folder / f"table.{name}", "y", 0.2) for name in ("csv", suffix))
    assert text.stream is other.stream is None
    assert text.load().columns == other.load().columns == ("intercept", "age", "dose")
    for a, b in zip(arrays(text), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_sample_of_all_rows_of_a_streamed_table_is_the_table(folder):
    whole, streamed = (OwnTable.open(folder / "table.parquet", "y", stream=stream) for stream in (False, True))
    assert streamed.load().source == "table.parquet, 700 rows; y = yes is 1, y = no is 0"
    for a, b in zip(arrays(whole), arrays(streamed), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_table_is_streamed_if_it_is_large_or_if_asked(folder, monkeypatch):
    path = folder / "table.parquet"
    assert OwnTable.open(path, "y").stream is None
    assert OwnTable.open(folder / "table.csv", "y", stream=True).stream is not None
    monkeypatch.setattr(own_table, "IN_MEMORY_BYTES", 1000)
    assert OwnTable.open(path, "y").stream is not None
    assert OwnTable.open(folder / "table.csv", "y").stream is not None
    assert OwnTable.open(path, "y", stream=False).stream is None


def test_another_table_of_the_same_name_has_another_fingerprint(folder, tmp_path):
    other = streams.frame().assign(dose=lambda frame: frame.dose + np.float32(1))
    marks = [
        OwnTable.open(path, "y", stream=True).options["fingerprint"]
        for path in (folder / "table.parquet", streams.write(tmp_path / "table.parquet", other))
    ]
    assert marks[0] != marks[1]


def plan(folder, solver, *assignments):
    task = find_task("regression", data=folder / "table.parquet", target="y", stream=True)
    return Plan.make(task, solver, "default", 0, None, assignments)


def test_a_streamed_run_has_batches_and_refuses_what_needs_all_rows(folder, failing):
    assert plan(folder, "civi").settings.problem.batch == 1000
    assert plan(folder, "civi", "problem.batch=50").source().rows == 700
    with pytest.raises(SettingError, match=r"problem.batch \(1000\) is larger than the data \(700 rows\)"):
        plan(folder, "civi").source()
    with pytest.raises(SettingError, match=r"read from disk in batches: set problem\.batch"):
        plan(folder, "civi", "problem.batch=none").source()
    with pytest.raises(SettingError, match="nuts evaluates all rows at every step"):
        plan(folder, "nuts").source()
    with pytest.raises(DataError, match=r"hold_out must be in \[0, 1\)"):
        OwnTable.open(folder / "table.parquet", "y", 1.5)
    message = failing("run", "banana", "--stream")
    assert message == (
        "task 'banana' has its own data: --data, --target, --hold-out, --stream and --in-memory are for 'regression'"
    )
