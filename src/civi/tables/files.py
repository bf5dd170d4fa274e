"""A Parquet, Arrow or CSV file, or a folder of such files, as a list of groups of rows that can be read one by one."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from civi.errors import DataError, unknown

CSV_BLOCK = 1 << 23
WRONG_NUMBER = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
END = 1 << 16
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
}


class Group(NamedTuple):
    """Rows of a file that are read together.

    Attributes:
        file: the file.
        place: the number of the row group or record batch, or the first and the last byte of a part of a CSV file.
        rows: number of rows.
        first: the number of its first row in the file, from 1.
    """

    file: Path
    place: Any
    rows: int
    first: int


@dataclass(frozen=True)
class Table:
    """A table on disk.

    Attributes:
        path: the file or the folder.
        columns: names of the columns.
        groups: all rows, in the order of the files' names and of the rows in each file.
    """

    path: Path
    columns: tuple[str, ...]
    groups: tuple[Group, ...]

    @classmethod
    def open(cls, path: Path) -> Table:
        """Read the names of the columns and the sizes of the groups; raises DataError if a file cannot be read."""
        pyarrow()
        columns: list[str] = []
        groups: list[Group] = []
        for file in files_of(path):
            with readable(file):
                names, found = _OPENERS[SUFFIXES[file.suffix.lower()]](file)
            _check_names(file, names, columns)
            columns = columns or names
            groups += [group for group in found if group.rows]
        if not groups:
            raise DataError(f"{path} has no rows: at least 2 are needed")
        return cls(path, tuple(columns), tuple(groups))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(group.rows for group in self.groups)

    def read(self, index: int, columns: Sequence[str]) -> Any:
        """These columns of a group, as a PyArrow table."""
        group = self.groups[index]
        with readable(group.file):
            content = _READERS[SUFFIXES[group.file.suffix.lower()]](group, list(columns), list(self.columns))
            content.validate()
            return content

    def fingerprint(self) -> str:
        """SHA-256 of the names and sizes of the files and of their ends, where Parquet and Arrow keep the schema."""
        digest = hashlib.sha256()
        for file in dict.fromkeys(group.file for group in self.groups):
            size = file.stat().st_size
            digest.update(f"{file.name} {size} ".encode())
            with file.open("rb") as content:
                digest.update(content.read(END))
                content.seek(max(0, size - END))
                digest.update(content.read(END))
        return digest.hexdigest()


def files_of(path: Path) -> list[Path]:
    """The files of a table: the file itself, or all files in the folder with a suffix of SUFFIXES, of one format."""
    if not path.exists():
        raise DataError(f"there is no file {path}: check the path")
    known = ", ".join(SUFFIXES)
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(f"{path} has an unknown format: name it by one of {known}")
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in SUFFIXES)
    if not found:
        raise DataError(f"the folder {path} has no file that ends in one of {known}")
    kinds = {SUFFIXES[file.suffix.lower()] for file in found}
    if len(kinds) > 1:
        raise DataError(f"the folder {path} has files of several formats ({', '.join(sorted(kinds))}): keep one")
    return found


def pyarrow(module: str = "") -> Any:
    """PyArrow or one of its modules; raises DataError if it is not installed."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise DataError("tables of this size or format are read by PyArrow: pip install 'civi[tables]'") from error


class readable:
    """Context in which an error of PyArrow or of the disk becomes a DataError that names the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        causes = (OSError, UnicodeDecodeError, pyarrow().ArrowException)
        if isinstance(error, causes) and not isinstance(error, DataError):
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{self._file} cannot be read ({reason})") from error


def _check_names(file: Path, names: list[str], expected: list[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{file}: more than one column is called {twice[0]}: rename one")
    if "" in names:
        raise DataError(f"{file}: column {names.index('') + 1} has no name: name it in the header or drop it")
    if expected and set(names) != set(expected):
        other = sorted(set(names) ^ set(expected))[0]
        raise DataError(f"{file}: its columns differ from those of the first file of the folder, for example {other}")


def _open_parquet(file: Path) -> tuple[list[str], Iterator[Group]]:
    metadata = pyarrow("parquet").read_metadata(file)
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return list(metadata.schema.to_arrow_schema().names), _numbered(file, sizes)


def _read_parquet(group: Group, columns: list[str], _: list[str]) -> Any:
    with pyarrow("parquet").ParquetFile(group.file, memory_map=False) as content:
        return content.read_row_group(group.place, columns=columns, use_threads=False)


def _open_arrow(file: Path) -> tuple[list[str], Iterator[Group]]:
    with pyarrow().memory_map(str(file)) as content:
        reader = pyarrow("ipc").open_file(content)
        sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
        return list(reader.schema.names), _numbered(file, sizes)


def _read_arrow(group: Group, columns: list[str], _: list[str]) -> Any:
    with pyarrow().OSFile(str(group.file)) as content:
        batch = pyarrow("ipc").open_file(content).get_batch(group.place)
        return pyarrow().Table.from_batches([batch]).select(columns)


def _numbered(file: Path, sizes: Sequence[int]) -> Iterator[Group]:
    first = 1
    for place, rows in enumerate(sizes):
        yield Group(file, place, rows, first)
        first += rows


def _open_csv(file: Path) -> tuple[list[str], list[Group]]:
    """Parts of about CSV_BLOCK bytes that end with a line; a value must not contain a line break."""
    groups, first = [], 1
    with file.open("rb") as content:
        header = content.readline().decode("utf-8-sig").strip("\r\n")
        while block := content.read(CSV_BLOCK):
            start = content.tell() - len(block)
            block += content.readline()
            rows = block.count(b"\n") + (not block.endswith(b"\n"))
            groups.append(Group(file, (start, start + len(block)), rows, first))
            first += rows
    names = pyarrow("csv").read_csv(pyarrow().BufferReader((header + "\n").encode())).column_names if header else []
    return [name.strip() for name in names], groups


def _read_csv(group: Group, columns: list[str], names: list[str]) -> Any:
    csv, (start, end) = pyarrow("csv"), group.place
    with group.file.open("rb") as content:
        content.seek(start)
        block = content.read(end - start)

    try:
        found = csv.read_csv(
            pyarrow().BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=2 * len(block) + 1),
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(include_columns=columns, strings_can_be_null=True),
        )
    except pyarrow().ArrowInvalid as error:
        if place := WRONG_NUMBER.search(str(error)):
            row, expected, actual = map(int, place.groups())
            where = f"{group.file}: row {group.first + row - 1}"
            raise DataError(f"{where} has {actual} values, not {expected}") from error
        raise
    if found.num_rows != group.rows:
        last = group.first + group.rows - 1
        raise DataError(f"{group.file}: rows {group.first} to {last} contain a line break inside of quotes: remove it")
    return found


def check_columns(table: Table, names: Sequence[str], what: str = "column") -> None:
    """Raise an error that lists the columns of the table if one of these names is not among them."""
    for name in names:
        if name not in table.columns:
            raise DataError(f"{table.path}: {unknown(what, str(name), table.columns)}")


_OPENERS: dict[str, Any] = {"parquet": _open_parquet, "arrow": _open_arrow, "csv": _open_csv}
_READERS: dict[str, Any] = {"parquet": _read_parquet, "arrow": _read_arrow, "csv": _read_csv}
