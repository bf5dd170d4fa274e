"""Tables on disk: the same rows in every format, bad rows named by file and row, and one pass over all rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streams
from civi.errors import DataError
from civi.tables import files
from civi.tables.columns import labels, numbers
from civi.tables.files import Group, Table
from civi.tables.scan import LabelledTable


def rows_of(table: Table) -> np.ndarray:
    names = ("age", "dose")
    groups = enumerate(table.groups)
    return np.concatenate([np.column_stack(numbers(table.read(i, names), names, group)) for i, group in groups])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_every_format_gives_the_rows_in_order(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(files, "CSV_BLOCK", 1000)
    frame = streams.frame()
    table = Table.open(streams.write(tmp_path / f"table{suffix}", frame))
    assert table.rows == len(frame)
    assert len(table.groups) > 10
    assert [group.first for group in table.groups] == [1, *(np.cumsum([g.rows for g in table.groups])[:-1] + 1)]
    np.testing.assert_allclose(rows_of(table), frame[["age", "dose"]].to_numpy(), rtol=1e-6)


def test_a_folder_is_one_table_in_the_order_of_its_files(tmp_path):
    frame = streams.frame(100)
    streams.write(tmp_path / "b.parquet", frame[60:])
    streams.write(tmp_path / "a.parquet", frame[:60])
    np.testing.assert_allclose(rows_of(Table.open(tmp_path)), frame[["age", "dose"]].to_numpy(), rtol=1e-6)


def spoil(frame: pd.DataFrame, column: str, row: int, value: object) -> pd.DataFrame:
    spoilt = frame.astype({column: object}) if isinstance(value, str) else frame.copy()
    spoilt.loc[row - 1, column] = value
    return spoilt


@pytest.mark.parametrize(
    ("suffix", "column", "value", "message"),
    [
        (".parquet", "age", np.inf, "row 57: age is inf"),
        (".parquet", "dose", None, "row 57: dose is (missing|nan)"),
        (".parquet", "y", None, "row 57: y is missing"),
        (".csv", "age", "unknown", "row 57: age is 'unknown', which is not a number"),
        (".csv", "dose", None, "row 57: dose is missing"),
        (".csv", "age", -np.inf, "row 57: age is -inf"),
    ],
)
def test_a_bad_value_is_named_by_file_and_row(tmp_path, monkeypatch, suffix, column, value, message):
    monkeypatch.setattr(files, "CSV_BLOCK", 1000)
    streams.write(tmp_path / f"a{suffix}", streams.frame(30))
    streams.write(tmp_path / f"b{suffix}", spoil(streams.frame(100), column, 57, value))
    with pytest.raises(DataError, match=rf"b\{suffix}: {message}"):
        LabelledTable(Table.open(tmp_path), "y").scan()


def test_a_row_with_another_number_of_values_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CSV_BLOCK", 1000)
    path = streams.write(tmp_path / "table.csv", streams.frame(100))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:57], "1,2", *lines[58:]]))
    with pytest.raises(DataError, match=r"table.csv: row 57 has 2 values, not 3"):
        LabelledTable(Table.open(path), "y").scan()


def test_tables_that_cannot_be_opened(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="there is no file"):
        Table.open(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="has no file that ends in"):
        Table.open(tmp_path)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"damaged.parquet cannot be read"):
        Table.open(tmp_path / "damaged.parquet")
    (tmp_path / "utf16.csv").write_bytes("y,a\n0,1\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"utf16.csv cannot be read \('utf-8' codec can't decode"):
        Table.open(tmp_path / "utf16.csv")
    path = streams.write(tmp_path / "good.parquet", streams.frame(10))
    with pytest.raises(DataError, match="unknown target column 'label'"):
        LabelledTable(Table.open(path), "label")
    monkeypatch.setattr(files.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(DataError, match=r"pip install 'civi\[tables\]'"):
        Table.open(path)


def test_a_scan_finds_the_moments_and_samples_every_group(tmp_path):
    frame = streams.frame()
    path = streams.write(tmp_path / "table.parquet", frame)
    found = LabelledTable(Table.open(path), "y", hold_out=0.3, sample=140).scan()
    assert found.labels == ("no", "yes")
    assert found.rows.sum() + 210 == pytest.approx(700, abs=5 * np.sqrt(700 * 0.3 * 0.7))
    whole = LabelledTable(Table.open(path), "y").scan()
    values = frame[["age", "dose"]].to_numpy()
    np.testing.assert_allclose([whole.mean, whole.sd], [values.mean(0), values.std(0, ddof=1)], rtol=1e-10)
    assert len(whole.train.y) == len(frame)
    assert len(found.train.y) == 140
    assert (np.diff(found.train.x[:, 0]) >= 0).all()
    assert not set(found.train.x[:, 0]) & set(found.test.x[:, 0])
    ages = frame.set_index("age")["y"]
    assert (found.train.y == (ages[found.train.x[:, 0]] == "yes")).all()


def test_a_target_must_have_two_labels(tmp_path):
    frame = streams.frame(50).assign(y=np.arange(50) % 3)
    with pytest.raises(DataError, match=r"has 3 label\(s\) \(0, 1, 2\): exactly 2 are needed"):
        LabelledTable(Table.open(streams.write(tmp_path / "table.parquet", frame)), "y").scan()
    constant = streams.frame(50).assign(dose=1.0)
    with pytest.raises(DataError, match="the same value in every training row: dose"):
        LabelledTable(Table.open(streams.write(tmp_path / "constant.parquet", constant)), "y").scan()


class Damaged:
    """A group whose damage PyArrow notices when a column is used."""

    def column(self, name):
        raise pa.lib.ArrowIndexError("buffer slice would exceed buffer length")


def test_damage_that_is_noticed_late_is_an_error_of_the_file(tmp_path):
    group = Group(tmp_path / "table.arrow", 0, 10, 1)
    for read in (lambda: numbers(Damaged(), ["age"], group), lambda: labels(Damaged(), "y", group)):
        with pytest.raises(DataError, match=r"table.arrow cannot be read \(buffer slice would exceed"):
            read()
