"""Columns of a group as numbers and labels. A value that cannot be used is an error that names its file and row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from civi.errors import DataError
from civi.tables.files import Group, pyarrow, readable


def numbers(content: Any, names: Sequence[str], group: Group) -> list[np.ndarray]:
    """These columns as arrays of float32 or float64, in this order.

    Args:
        content: the group as a PyArrow table.
        names: the columns.
        group: where the group is, for error messages.
    """
    with readable(group.file):
        return [_number(content.column(name).combine_chunks(), name, group) for name in names]


def _number(column: Any, name: str, group: Group) -> np.ndarray:
    types = pyarrow("types")
    check_present(column, name, group)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast(pyarrow().float64())
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
        raise DataError(f"{group.file}: {_first_text(column, name, group)}: encode or drop this column")
    kind = np.float32 if types.is_floating(column.type) and column.type.bit_width <= 32 else np.float64
    values = column.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        place = int(finite.argmin())
        raise DataError(f"{group.file}: row {group.first + place}: {name} is {values[place]}: drop or replace it")
    return values


def check_present(column: Any, name: str, group: Group) -> None:
    """Raise an error if a value of the column is missing."""
    if column.null_count:
        place = int(np.asarray(column.is_null().to_numpy(zero_copy_only=False)).argmax())
        where = f"{group.file}: row {group.first + place}"
        raise DataError(f"{where}: {name} is missing: fill it in, or drop the row or the column")


def _first_text(column: Any, name: str, group: Group) -> str:
    values = pd.Series(column.to_pylist(), dtype=object)
    texts = pd.to_numeric(values, errors="coerce").isna().to_numpy()
    place = int(texts.argmax())
    shown = str(values.iloc[place])[:50]
    return f"row {group.first + place}: {name} is '{shown}', which is not a number"


def labels(content: Any, name: str, group: Group) -> Any:
    """The column of labels as a PyArrow array without missing values."""
    with readable(group.file):
        column = content.column(name).combine_chunks()
    check_present(column, name, group)
    return column.dictionary_decode() if pyarrow("types").is_dictionary(column.type) else column


def are(column: Any, label: Any) -> np.ndarray:
    """1 where the label is this one, otherwise 0."""
    equal = pyarrow("compute").equal(column, pyarrow().scalar(label))
    return np.asarray(equal.to_numpy(zero_copy_only=False), np.float32)
