"""`civi.Rows`: columns of a table on disk, given to a NumPyro model in place of an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from civi import interrupts
from civi.errors import DataError, TargetError, require
from civi.files import as_path
from civi.tables.batches import EXACT, spooled
from civi.tables.columns import numbers
from civi.tables.files import Group, Table, check_columns, pyarrow

SAMPLE = 10_000
LARGEST = np.finfo(np.float32).max


class Given(NamedTuple):
    """What a model sees while it is traced: values (B, C), the names of their columns, and the rows of the table."""

    values: Any
    names: tuple[str, ...]
    total: int


_given: ContextVar[Given | None] = ContextVar("civi rows", default=None)


@dataclass(frozen=True)
class Rows:
    """Columns of a Parquet, Arrow or CSV file, or of a folder of such files, that are read while a model is fitted.

    A model uses it by the rows of a plate that subsamples::

        with numpyro.plate("rows", len(x), subsample_size=1000) as i:
            numpyro.sample("y", dist.Bernoulli(logits=x[i] @ beta), obs=y[i])

    Args:
        path: the file or the folder; `from_batches` makes one.
        columns: a list of names, for an array (N, C), or one name, for an array (N,). Whole numbers stay whole.

    Example:
        >>> import civi, pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = file.write_text("a,b,y\\n0.5,1.5,0\\n2.5,3.5,1\\n")
        >>> x = civi.Rows(file, ["a", "b"])
        >>> len(x), x.columns
        (2, ['a', 'b'])
    """

    path: str | Path | Table
    columns: str | Sequence[str]
    table: Table = field(init=False, repr=False, compare=False)
    whole: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = self.path if isinstance(self.path, Table) else Table.open(as_path(self.path))
        require(isinstance(self.columns, str | list | tuple), "columns must be a name, or a list of names")
        require(len(self.names) >= 1, "Rows needs the name of at least one column")
        check_columns(table, self.names)
        types = [table.read(0, [name]).column(name).type for name in self.names]
        integer = pyarrow("types").is_integer
        object.__setattr__(self, "path", table.path)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "whole", all(integer(kind) for kind in types))

    @classmethod
    def from_batches(cls, batches: Any, folder: str | Path | None = None) -> Any:
        """The rows of all batches, for data that come from a database, a network or a generator.

        The batches are read once, with one of them in memory at a time, and their rows are written to a temporary file
        that only this user can read. It is deleted when nothing uses its rows any more.

        Args:
            batches: an iterable, or a function that returns one. Every batch is a tuple or a dict of vectors (B,) and
                matrices (B, C), in which row i of each belongs to the same row of the table. B may change.
            folder: where the file is written, 4 bytes per number; by default the folder of temporary files.

        Returns:
            A tuple or a dict, as the batches are, of one `Rows` for each array.

        Example:
            >>> import civi, numpy as np
            >>> def batches():
            ...     for seed in range(3):
            ...         x = np.random.default_rng(seed).normal(size=(100, 2))
            ...         yield x, x.sum(1) > 0
            >>> x, y = civi.Rows.from_batches(batches)
            >>> x.shape, y.shape
            ((300, 2), (300,))
        """
        found = spooled(batches, folder)
        rows = {part.name: cls(found.table, part.columns) for part in found.parts}
        return rows if found.named else tuple(rows.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows of the table and, for a list of names, of columns."""
        return (self.table.rows,) if isinstance(self.columns, str) else (self.table.rows, len(self.names))

    def __len__(self) -> int:
        return self.table.rows

    def __getitem__(self, index: Any) -> Any:
        """The rows of the plate."""
        given = _given.get()
        if given is None:
            raise TargetError(
                "the rows of a table on disk exist while a model is fitted only: use them inside the model"
            )
        places = [given.names.index(name) for name in self.names]
        values = given.values[:, places[0]] if isinstance(self.columns, str) else given.values[:, jnp.asarray(places)]
        return (values.astype(jnp.int32) if self.whole else values)[index]


@contextmanager
def given(values: Any, names: tuple[str, ...], total: int) -> Iterator[None]:
    """Context in which every `Rows` has these values in place of its rows."""
    token = _given.set(Given(values, names, total))
    try:
        yield
    finally:
        _given.reset(token)


def given_rows(size: int) -> int | None:
    """The number of rows that a plate of this size sees, if it is a plate over the rows of a table on disk."""
    found = _given.get()
    return len(found.values) if found is not None and size == found.total else None


@dataclass(frozen=True, eq=False)
class RowStream:
    """The columns that a model uses, of one table.

    Attributes:
        table: the table.
        names: names of the columns.
        whole: those of them that are whole numbers.
    """

    table: Table
    names: tuple[str, ...]
    whole: tuple[str, ...]

    @classmethod
    def of(cls, found: Sequence[Rows]) -> RowStream:
        """The columns of all these; raises DataError unless they are of the same table."""
        paths = {rows.table.path.resolve() for rows in found}
        if len(paths) > 1:
            shown = ", ".join(sorted(map(str, paths)))
            raise DataError(f"all Rows of a model must be of one table, not of {shown}: join them first")
        names = dict.fromkeys(name for rows in found for name in rows.names)
        whole = dict.fromkeys(name for rows in found for name in rows.names if rows.whole)
        return cls(found[0].table, tuple(names), tuple(whole))

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group."""
        return np.array([group.rows for group in self.table.groups])

    def group(self, index: int, chosen: np.ndarray | None = None) -> np.ndarray:
        """The rows of a group, or the chosen ones of them, as float32; raises DataError if one cannot be used."""
        group = self.table.groups[index]
        columns = numbers(self.table.read(index, self.names), self.names, group)
        for name, values in zip(self.names, columns, strict=True):
            if name in self.whole:
                _check(np.abs(values) <= EXACT, f"{name} is above {EXACT}, which is not exact in float32", group)
                _check(values == np.floor(values), f"{name} is not a whole number as in the first rows", group)
            _check(np.abs(values) <= LARGEST, f"{name} is too large for float32", group)
        rows = np.column_stack([column.astype(np.float32, copy=False) for column in columns])
        return rows if chosen is None else rows[chosen]

    def sample(self, seed: int = 0, count: int = SAMPLE) -> np.ndarray:
        """`count` random rows, or all if there are fewer, in proportion from every group; checks every row."""
        ends = np.minimum(count, self.table.rows) * np.cumsum(self.sizes) // self.table.rows
        parts = []
        for index, share in enumerate(np.diff(ends, prepend=0)):
            interrupts.check()
            rows = self.group(index)
            picked = np.random.default_rng([seed, index]).choice(len(rows), int(share), replace=False)
            parts.append(rows[np.sort(picked)])
        return np.concatenate(parts)


def _check(good: np.ndarray, message: str, group: Group) -> None:
    """Raise an error that names the first row that is not good."""
    if not good.all():
        raise DataError(f"{group.file}: row {group.first + int(good.argmin())}: {message}")
