"""The user's own table as a logistic regression: in memory if it is small, otherwise read from disk while training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from civi.errors import DataError
from civi.experiment.data.regression import RegressionData
from civi.experiment.data.table import read_table, regression_of
from civi.problem.target.streamed import RegressionStream
from civi.tables.columns import labels, numbers
from civi.tables.files import Table
from civi.tables.scan import LabelledTable

IN_MEMORY_BYTES = 500_000_000


@dataclass(frozen=True)
class OwnTable:
    """A regression on the user's table.

    Attributes:
        load: function that loads the data; if they are streamed, a sample of them.
        options: what identifies the data in config.json.
        stream: function that makes the pass over a streamed table, once; None if the rows are in memory.
    """

    load: Callable[[], RegressionData]
    options: dict[str, Any]
    stream: Callable[[], RegressionStream] | None = None

    @classmethod
    def open(cls, path: Path, target: str, hold_out: float = 0.0, stream: bool | None = None) -> OwnTable:
        """Open a table and check the names of its columns; a small one is read.

        Args:
            path: a CSV, Parquet or Arrow file, or a folder of such files.
            target: the column to predict.
            hold_out: fraction of the rows to keep for testing.
            stream: whether to read the rows from disk while training; None: if they have more than IN_MEMORY_BYTES.
        """
        if _is_small_csv(path, stream):
            data = read_table(path, target, hold_out)
            checksum = hashlib.sha256(path.read_bytes()).hexdigest()
            return cls(lambda: data, {"data": str(path), "sha256": checksum, "target": target, "hold_out": hold_out})
        if not 0 <= hold_out < 1:
            raise DataError(f"hold_out must be in [0, 1), not {hold_out}")
        table = LabelledTable(Table.open(path), target, hold_out)
        mark = table.table.fingerprint()
        options = {"data": str(path), "fingerprint": mark, "target": target, "hold_out": hold_out}
        small = 4 * table.table.rows * len(table.table.columns) <= IN_MEMORY_BYTES
        if stream is False or (stream is None and small):
            data = regression_of(path, _frame(table), target, hold_out)
            return cls(lambda: data, options)
        return cls.streamed(table, options)

    @classmethod
    def streamed(cls, table: LabelledTable, options: dict[str, Any]) -> OwnTable:
        """A table whose rows are read from disk; the pass over it is made when it is first used."""

        @cache
        def stream() -> RegressionStream:
            return RegressionStream(table, table.scan())

        return cls(lambda: _sample(stream()), options, stream)


def _is_small_csv(path: Path, stream: bool | None) -> bool:
    """Whether this is a CSV file that is read by pandas, as it is also if PyArrow is not installed."""
    if path.is_dir() or path.suffix.lower() in (".parquet", ".pq", ".arrow", ".feather", ".ipc") or stream:
        return False
    small = not path.exists() or path.stat().st_size <= IN_MEMORY_BYTES
    return stream is False or small or find_spec("pyarrow") is None


def _frame(table: LabelledTable) -> pd.DataFrame:
    """All rows in memory."""
    parts = []
    for index, group in enumerate(table.table.groups):
        content = table.table.read(index, table.table.columns)
        columns = dict(zip(table.features, numbers(content, table.features, group), strict=True))
        target = labels(content, table.target, group).to_pandas()
        parts.append(pd.DataFrame({**columns, table.target: target}))
    return pd.concat(parts, ignore_index=True)


def _sample(stream: RegressionStream) -> RegressionData:
    """The sample of training and test rows of a streamed table."""
    table, (zero, one) = stream.table, stream.scan.labels
    train, test = stream.sample(), stream.test()
    source = (
        f"{table.table.path.name}, {table.table.rows} rows; {table.target} = {one} is 1, {table.target} = {zero} is 0"
    )
    columns, name = ("intercept", *table.features), table.table.path.stem
    return RegressionData(
        name,
        source,
        columns,
        *(np.ascontiguousarray(part) for rows in (train, test) for part in (rows[:, :-1], rows[:, -1])),
    )
