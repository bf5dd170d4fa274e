"""Six tables of the UCI repository for regression with Bayesian neural networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from civi.errors import DataError, unknown
from civi.experiment.data.files import locate


class Table(NamedTuple):
    """A file of the set `uci`, how it is read, and the column to predict."""

    file: str
    read: Callable[[Path], np.ndarray]
    target: int = -1


@dataclass(frozen=True)
class SplitTable:
    """A table in two parts, standardised by the mean and sd (ddof 1) of the training rows.

    Attributes:
        name: name of the table.
        x_train: features of the training rows, standardised.
        y_train: targets of the training rows, standardised.
        x_test: features of the test rows, standardised.
        y_test: targets of the test rows, in their own units.
        y_mean: mean of the training targets.
        y_sd: standard deviation of the training targets.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    y_mean: float
    y_sd: float


def _text(delimiter: str | None = None, header: int = 0) -> Callable[[Path], np.ndarray]:
    """A reader of text files; lines that begin with # are skipped."""
    return lambda path: np.loadtxt(path, delimiter=delimiter, skiprows=header)


def _spreadsheet(path: Path) -> np.ndarray:
    try:
        return pd.read_excel(path).to_numpy(np.float64)
    except ImportError:
        raise DataError(f"reading {path.name} needs xlrd: install it with `pip install civi[uci]`") from None


TABLES: dict[str, Table] = {
    "boston": Table("boston_housing.txt", _text()),
    "concrete": Table("Concrete_Data.xls", _spreadsheet),
    "power": Table("CCPP.csv", _text(",")),
    "wine": Table("winequality-red.csv", _text(";")),
    "yacht": Table("yacht_hydrodynamics.data", _text()),
    "protein": Table("CASP.csv", _text(",", header=1), target=0),
}


def split_rows(rows: int, test: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training and the test rows that scikit-learn's train_test_split(random_state=seed) chooses, in its order.

    Args:
        rows: number of rows.
        test: fraction of test rows, rounded up to whole rows.
        seed: seed of NumPy's old generator, which scikit-learn uses.
    """
    order, held = np.random.RandomState(seed).permutation(rows), math.ceil(test * rows)
    return order[held:], order[:held]


def uci_table(name: str, test: float = 0.1, seed: int = 42) -> SplitTable:
    """A table, split and standardised.

    Args:
        name: one of TABLES.
        test: fraction of test rows.
        seed: seed of the split; see `split_rows`.
    """
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    table = TABLES[name]
    values = table.read(locate("uci", table.file))
    y, x = values[:, table.target], np.delete(values, table.target, axis=1)
    train, held = split_rows(len(values), test, seed)
    mean, sd = x[train].mean(0), x[train].std(0, ddof=1)
    sd = np.where(sd > 0, sd, 1.0)
    y_mean, y_sd = float(y[train].mean()), float(y[train].std(ddof=1))
    x, standard = (x - mean) / sd, (y - y_mean) / y_sd
    return SplitTable(name, x[train], standard[train], x[held], y[held], y_mean, y_sd)
