"""Batches of rows from any source, written once to a private temporary file that is read as every other table."""

from __future__ import annotations

import inspect
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from civi import interrupts
from civi.errors import DataError, OutputError
from civi.tables.files import Table, pyarrow

EXACT = 2**24
GROUP_ROWS, GROUP_BYTES = 100_000, 1 << 24


@dataclass(frozen=True)
class Part:
    """One array of every batch: its name, the number of its columns (None for a vector) and whether it is whole."""

    name: str
    width: int | None
    whole: bool

    @classmethod
    def of(cls, name: str, array: np.ndarray) -> Part:
        """The part as it is in the first batch."""
        return cls(name, array.shape[1] if array.ndim == 2 else None, array.dtype.kind in "iub")

    @property
    def columns(self) -> str | list[str]:
        """The name of its column in the table, or a list of names for a matrix."""
        return self.name if self.width is None else [f"{self.name}.{j}" for j in range(self.width)]

    @property
    def names(self) -> list[str]:
        """Names of its columns."""
        return [self.columns] if isinstance(self.columns, str) else self.columns

    def checked(self, array: np.ndarray, number: int) -> list[np.ndarray]:
        """The columns of this array as int32 or float32; raises DataError if it is unlike that of the first batch."""
        where = f"batch {number}: {self.name}"
        shape, expected = array.shape[1:], () if self.width is None else (self.width,)
        if shape != expected:
            raise DataError(f"{where} has rows of shape {shape}, and not {expected} as in the first batch")
        if self.whole and array.dtype.kind not in "iub":
            raise DataError(f"{where} has type {array.dtype}, and whole numbers in the first batch: convert them there")
        columns = array.reshape(len(array), self.width or 1)
        with np.errstate(over="ignore"):
            values = columns.astype(np.int64 if self.whole else np.float32)
        bad = (columns > EXACT) | (columns < -EXACT) if self.whole else ~np.isfinite(values)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            reason = f"above {EXACT}: convert all to floating point" if self.whole else "not finite in float32"
            raise DataError(f"{where}: row {row + 1} is {columns[row, column]}, which is {reason}")
        return list(values.astype(np.int32 if self.whole else np.float32).T)


@dataclass(frozen=True)
class Spooled:
    """The table of all batches, and the arrays of which each batch consists; `named` if they come as a dict."""

    table: Table
    parts: tuple[Part, ...]
    named: bool


def spooled(batches: Any, folder: str | Path | None) -> Spooled:
    """Write all batches to a file that only this user can read and that is deleted with its table.

    Args:
        batches: tuples or dicts of arrays, with one row of each array for each row of the table.
        folder: where the file is written; by default the folder of temporary files.
    """
    source = _iterator(batches)
    first = next(source, None)
    if first is None:
        raise DataError("there are no batches: the iterable is empty")
    parts = tuple(Part.of(name, array) for name, array in _arrays(first, 1).items())
    tables = (_table(parts, batch, number) for number, batch in enumerate(chain([first], source), 1))
    private = _private_folder(folder)
    try:
        table = _written(Path(private) / "batches.arrow", tables, parts)
    except BaseException:
        shutil.rmtree(private, ignore_errors=True)
        raise
    weakref.finalize(table, shutil.rmtree, private, ignore_errors=True)
    return Spooled(table, parts, isinstance(first, Mapping))


def _iterator(batches: Any) -> Iterator[Any]:
    if callable(batches):
        try:
            inspect.signature(batches).bind()
        except TypeError as error:
            raise DataError(f"the function that returns the batches must need no argument: {error}") from error
        batches = batches()
    try:
        return iter(batches)
    except TypeError as error:
        kind = type(batches).__name__
        raise DataError(f"batches must be an iterable or a function that returns one, not of type {kind}") from error


def _arrays(batch: Any, number: int) -> dict[str, np.ndarray]:
    """The arrays of a batch by name, or by position; raises DataError unless they are numbers with as many rows."""
    if not isinstance(batch, Mapping | tuple | list):
        raise DataError(f"batch {number} is of type {type(batch).__name__}: give a tuple or a dict of arrays")
    given = batch if isinstance(batch, Mapping) else {f"array {i}": array for i, array in enumerate(batch)}
    arrays = {str(name): _array(array, f"batch {number}: {name}") for name, array in given.items()}
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) != 1:
        counts = ", ".join(f"{name} has {size}" for name, size in sizes.items()) or "it has no arrays"
        raise DataError(f"batch {number}: all arrays must have the same number of rows: {counts}")
    return arrays


def _array(given: Any, where: str) -> np.ndarray:
    if np.ma.is_masked(given):
        raise DataError(f"{where} has missing (masked) values: fill them in or drop these rows")
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} is not an array: {error}") from error
    if array.dtype.kind not in "iubf":
        raise DataError(f"{where} has type {array.dtype}, which is not a type of numbers")
    if array.ndim not in (1, 2) or array.shape[1:] == (0,):
        raise DataError(f"{where} has shape {array.shape}: give a vector (N,) or a matrix (N, C)")
    return array


def _table(parts: tuple[Part, ...], batch: Any, number: int) -> Any:
    """A batch as a PyArrow table."""
    interrupts.check()
    arrays, expected = _arrays(batch, number), [part.name for part in parts]
    if set(arrays) != set(expected):
        raise DataError(f"batch {number} has {', '.join(arrays)}, and not {', '.join(expected)} as the first batch")
    columns = [column for part in parts for column in part.checked(arrays[part.name], number)]
    return pyarrow().table(columns, schema=_schema(parts))


def _schema(parts: tuple[Part, ...]) -> Any:
    arrow = pyarrow()
    kinds = {True: arrow.int32(), False: arrow.float32()}
    return arrow.schema([(name, kinds[part.whole]) for part in parts for name in part.names])


def _written(path: Path, tables: Iterator[Any], parts: tuple[Part, ...]) -> Table:
    """The table in a file, in groups of equal size, of which the last may be smaller."""
    schema, rows = _schema(parts), 0
    size = max(1, min(GROUP_ROWS, GROUP_BYTES // (4 * len(schema))))
    with _writing(path):
        file = pyarrow("ipc").new_file(path, schema)
    for group in _grouped(tables, size):
        rows += len(group)
        with _writing(path):
            file.write_table(group, max_chunksize=size)
    with _writing(path):
        file.close()
    if not rows:
        raise DataError("the batches have no rows: at least 2 are needed")
    return Table.open(path)


def _grouped(tables: Iterator[Any], size: int) -> Iterator[Any]:
    """The same rows in tables of whole groups, and the rest."""
    pending = next(tables)
    for table in chain(tables, [None]):
        full = len(pending) // size * size
        if full:
            yield pending.slice(0, full).combine_chunks()
            pending = pending.slice(full)
        if table is not None:
            pending = pyarrow().concat_tables([pending, table])
    yield pending.combine_chunks()


def _private_folder(folder: str | Path | None) -> str:
    place = tempfile.gettempdir() if folder is None else folder
    with _writing(place):
        return tempfile.mkdtemp(prefix="civi-batches-", dir=place)


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Context in which an error of the disk becomes an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"the batches cannot be written to {path}: {error.strerror or error}") from error
