"""UCI tables: the split of scikit-learn, standardisation by the training rows, and the format of each file."""

import numpy as np
import pandas as pd
import pytest

from civi.errors import DataError, SettingError
from civi.experiment.data import uci

ROWS = np.random.default_rng(0).normal(5, 2, (30, 4))
FILES = {
    "boston": ("boston_housing.txt", " ", ""),
    "power": ("CCPP.csv", ",", "# AT,V,AP,PE"),
    "wine": ("winequality-red.csv", ";", '#"acidity";"sugar";"pH";"quality"'),
    "yacht": ("yacht_hydrodynamics.data", " ", ""),
    "protein": ("CASP.csv", ",", '"RMSD","F1","F2","F3"'),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(uci, "locate", lambda set_name, file: tmp_path / file)
    return tmp_path


def write(path, delimiter, header):
    lines = [header] if header else []
    path.write_text("\n".join([*lines, *(delimiter.join(f"{value:.6f}" for value in row) for row in ROWS)]) + "\n")


def test_the_split_is_that_of_scikit_learn():
    """train_test_split(range(10), test_size=0.3, random_state=42) gives these rows in this order."""
    train, test = uci.split_rows(10, 0.3, 42)
    assert (train.tolist(), test.tolist()) == ([0, 7, 2, 9, 4, 3, 6], [8, 1, 5])
    sizes = {rows: len(uci.split_rows(rows, 0.1, 42)[1]) for rows in (506, 1030, 9568, 1599, 308, 45730)}
    assert sizes == {506: 51, 1030: 103, 9568: 957, 1599: 160, 308: 31, 45730: 4573}


@pytest.mark.parametrize("name", FILES)
def test_a_table_is_standardised_by_its_training_rows(name, folder):
    write(folder / FILES[name][0], *FILES[name][1:])
    found, column = uci.uci_table(name), 0 if name == "protein" else 3
    order = np.random.RandomState(42).permutation(30)
    y, x = ROWS[:, column], np.delete(ROWS, column, axis=1)
    np.testing.assert_allclose(found.y_test, y[order[:3]], atol=1e-5)
    np.testing.assert_allclose(found.y_mean + found.y_sd * found.y_train, y[order[3:]], atol=1e-5)
    np.testing.assert_allclose([found.x_train.mean(0), found.x_train.std(0, ddof=1)], [[0] * 3, [1] * 3], atol=1e-9)
    mean, sd = x[order[3:]].mean(0), x[order[3:]].std(0, ddof=1)
    np.testing.assert_allclose(found.x_test, (x[order[:3]] - mean) / sd, atol=1e-4)


def test_a_constant_column_is_not_divided_by_zero(folder):
    table = ROWS.copy()
    table[:, 1] = 7.0
    np.savetxt(folder / "boston_housing.txt", table)
    np.testing.assert_array_equal(uci.uci_table("boston").x_train[:, 1], 0)


def test_a_spreadsheet_is_read_and_needs_its_reader(folder, monkeypatch):
    monkeypatch.setattr(pd, "read_excel", lambda path: pd.DataFrame(ROWS, columns=list("abcy")))
    assert uci.uci_table("concrete").x_train.shape == (27, 3)

    def without_reader(path):
        raise ImportError("Missing optional dependency 'xlrd'")

    monkeypatch.setattr(pd, "read_excel", without_reader)
    with pytest.raises(
        DataError, match=r"reading Concrete_Data.xls needs xlrd: install it with `pip install civi\[uci\]`"
    ):
        uci.uci_table("concrete")


def test_an_unknown_table_is_refused():
    with pytest.raises(SettingError, match="unknown table 'bosten': did you mean 'boston'"):
        uci.uci_table("bosten")
