"""The user's own CSV file as a logistic regression."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from civi.errors import DataError, unknown
from civi.experiment.data.regression import RegressionData

SHOWN, BLOCK = 5, 1 << 20


def read_table(path: Path, target: str, hold_out: float = 0.0, seed: int = 0) -> RegressionData:
    """Read a CSV file with a header; every column except the target is a feature.

    All rows are standardised by the mean and sd (ddof 1) of the training rows, and a column of ones is put first. Error
    messages count rows from 1, without the header.

    Args:
        path: the CSV file.
        target: the column to predict. It must have two labels; the one that sorts last becomes 1, as `source` says.
        hold_out: fraction of the rows to keep for testing.
        seed: seed of the random choice of test rows.
    """
    if not 0 <= hold_out < 1:
        raise DataError(f"hold_out must be in [0, 1), not {hold_out}")
    if seed < 0:
        raise DataError(f"seed must not be negative, not {seed}")
    frame = read_frame(path)
    return regression_of(path, frame, target, hold_out, seed)


def regression_of(path: Path, frame: pd.DataFrame, target: str, hold_out: float, seed: int = 0) -> RegressionData:
    """The regression on a table in memory; the arguments are those of `read_table`."""
    _check_shape(path, frame, target)
    check_values(path, frame, target)
    y, labels = _labels(path, frame.pop(target))
    train, test = _rows(len(frame), hold_out, seed)
    _check_training_rows(path, y[train], hold_out)
    x_train, x_test = _standardised(path, frame, train, test)
    source = f"{path.name}, {len(frame)} rows; {target} = {labels[1]} is 1, {target} = {labels[0]} is 0"
    columns = ("intercept", *map(str, frame.columns))
    return RegressionData(path.stem, source, columns, x_train, y[train], x_test, y[test])


def read_frame(path: Path) -> pd.DataFrame:
    """Read a CSV file with a header; a file that cannot be read is a DataError."""
    options: dict[str, Any] = {
        "skipinitialspace": True,
        "index_col": False,
        "encoding": "utf-8-sig",
        "compression": None,
    }
    try:
        _check_bytes(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            _check_header(path, pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0])
            return pd.read_csv(path, low_memory=False, **options)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path") from error
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path} is empty: a CSV file with a header is needed") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not a CSV file that can be read ({reason})") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _check_bytes(path: Path) -> None:
    """Refuse a file that is not CSV text but can be read as such: JSON, or binary data with NUL bytes."""
    with path.open("rb") as file:
        block = file.read(BLOCK)
        if block.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
            raise DataError(f"{path} looks like JSON, not like CSV: name it .json, or convert it")
        while block:
            if b"\0" in block:
                raise DataError(f"{path} is not a CSV file that can be read (it contains NUL bytes)")
            block = file.read(BLOCK)


def _check_header(path: Path, names: pd.Series) -> None:
    if names.isna().any():
        raise DataError(
            f"{path}: column {int(names.isna().argmax()) + 1} has no name: name it in the header or drop it"
        )
    if names.duplicated().any():
        raise DataError(f"{path}: more than one column is called {names[names.duplicated()].iloc[0]}: rename one")


def _check_shape(path: Path, frame: pd.DataFrame, target: str) -> None:
    names = [str(name) for name in frame.columns]
    if target not in names:
        hint = "; the file has one column: are the values separated by commas?" if len(names) == 1 else ""
        raise DataError(f"{path}: {unknown('target column', target, names)}{hint}")
    if len(names) < 2:
        raise DataError(f"{path} has no column except the target {target}: at least one feature is needed")
    if len(frame) < 2:
        raise DataError(f"{path} has {len(frame)} rows below the header: at least 2 are needed")


def check_values(path: Path, frame: pd.DataFrame, target: str | None = None) -> None:
    """Raise an error if a column other than the target is not numeric, or if a value is missing or infinite."""
    texts = [name for name in frame if name != target and not pd.api.types.is_numeric_dtype(frame[name])]
    texts = [name for name in texts if not frame[name].isna().all()]
    if texts:
        raise DataError(f"{path}: not numbers: {_listed(frame, texts, _first_text)}: encode or drop these columns")
    missing = [name for name in frame if frame[name].isna().any()]
    if missing:
        shown = _listed(frame, missing, lambda column: _count(column.isna()))
        raise DataError(f"{path}: missing values: {shown}: fill them in, or drop the rows or columns")
    numbers = [name for name in frame if pd.api.types.is_float_dtype(frame[name])]
    infinite = [name for name in numbers if np.isinf(frame[name]).any()]
    if infinite:
        shown = _listed(frame, infinite, lambda column: _count(np.isinf(column)))
        raise DataError(f"{path}: infinite values: {shown}: replace them, or drop the rows or columns")


def _listed(frame: pd.DataFrame, names: list[Any], remark: Any) -> str:
    """The names of columns, each with a remark; if there are many, only the first few."""
    more = f" and {len(names) - SHOWN} more columns" if len(names) > SHOWN else ""
    return ", ".join(f"{name} ({remark(frame[name])})" for name in names[:SHOWN]) + more


def _first_text(column: pd.Series) -> str:
    texts = column[pd.to_numeric(column, errors="coerce").isna() & column.notna()]
    return f"'{texts.iloc[0]}' in row {texts.index[0] + 1}" if len(texts) else "values of several kinds"


def _count(where: pd.Series) -> str:
    return f"{int(where.sum())}, first in row {int(where.argmax()) + 1}"


def _labels(path: Path, column: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """The labels as 0 and 1, and the two original labels."""
    labels = sorted(column.unique().tolist())
    if len(labels) != 2:
        more = ", ..." if len(labels) > SHOWN else ""
        shown = ", ".join(map(str, labels[:SHOWN])) + more
        raise DataError(f"{path}: the target {column.name} has {len(labels)} label(s) ({shown}): exactly 2 are needed")
    return (column == labels[1]).to_numpy(np.float32), labels


def _rows(number: int, hold_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training rows and the test rows, both in file order."""
    held = math.floor(hold_out * number + 0.5)
    if held == 0:
        return np.arange(number), np.arange(0)
    order = np.random.default_rng(seed).permutation(number)
    return np.sort(order[held:]), np.sort(order[:held])


def _check_training_rows(path: Path, y: np.ndarray, hold_out: float) -> None:
    if len(y) < 2 or y.min() == y.max():
        what = f"only {len(y)} row(s)" if len(y) < 2 else "one label only"
        raise DataError(f"{path}: hold_out {hold_out} leaves {what} to train on: hold out less or change the seed")


def _standardised(
    path: Path, frame: pd.DataFrame, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Design matrices of the training and test rows, built one column at a time to save memory."""
    x_train = np.ones((len(train), frame.shape[1] + 1), np.float32)
    x_test = np.ones((len(test), frame.shape[1] + 1), np.float32)
    constant = []
    for j, name in enumerate(frame, start=1):
        column = frame[name].to_numpy(np.float64)
        column = column / (np.abs(column).max() or 1.0)
        mean, sd = column[train].mean(), column[train].std(ddof=1)
        if np.ptp(column[train]) == 0 or sd == 0:
            constant.append(str(name))
            continue
        x_train[:, j] = (column[train] - mean) / sd
        x_test[:, j] = (column[test] - mean) / sd
    if constant:
        raise DataError(f"{path}: the same value in every training row: {', '.join(constant)}: drop these columns")
    return x_train, x_test
