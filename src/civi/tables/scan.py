"""One pass over all rows of a table: moments of the columns, labels of the target, and a random sample of rows.

Each process reads its own groups, and all get the same result, whatever the number of processes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from civi import interrupts
from civi.errors import DataError
from civi.parallel.mesh import gather_bytes, own_share
from civi.tables.columns import labels, numbers
from civi.tables.files import Table, check_columns

SAMPLE, HELD = 1, 2
SHOWN = 5


class Rows(NamedTuple):
    """Rows of a group: the features (N, C) and the labels 0 or 1 (N,)."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Scan:
    """What one pass over the table found.

    Attributes:
        rows: number of training rows of each group.
        mean: mean of each feature over the training rows.
        sd: standard deviation (ddof 1) of each feature over the training rows.
        labels: the two labels; the second one is coded as 1.
        train: a sample of the training rows, in random proportion from every group.
        test: a sample of the test rows.
    """

    rows: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    labels: tuple[Any, Any]
    train: Rows
    test: Rows


@dataclass(frozen=True)
class LabelledTable:
    """A table whose column `target` has two labels; all other columns are features.

    Attributes:
        table: the table.
        target: name of the column to predict.
        hold_out: fraction of the rows that are kept for testing.
        seed: seed of the choice of these rows, and of the sample.
        sample: number of training rows in the sample, and of test rows.
    """

    table: Table
    target: str
    hold_out: float = 0.0
    seed: int = 0
    sample: int = 100_000

    def __post_init__(self) -> None:
        check_columns(self.table, [self.target], "target column")
        if len(self.table.columns) < 2:
            raise DataError(f"{self.table.path} has no column except the target {self.target}: a feature is needed")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(name for name in self.table.columns if name != self.target)

    def read(self, index: int) -> tuple[list[np.ndarray], Any, np.ndarray]:
        """The features of a group, its column of labels, and which of its rows are for training."""
        group = self.table.groups[index]
        content = self.table.read(index, self.table.columns)
        columns, target = numbers(content, self.features, group), labels(content, self.target, group)
        held = (
            self._rng(HELD, index).random(group.rows) < self.hold_out if self.hold_out else np.zeros(group.rows, bool)
        )
        return columns, target, ~held

    def scan(self) -> Scan:
        """Read all rows once; raises DataError if one of them cannot be used."""
        found = {index: self._scanned(index) for index in own_share(len(self.table.groups))}
        parts = _exchanged(found)
        known = _labels(self.table.path, self.target, parts)
        mean, sd = self._moments(parts)
        train, test = self._samples(parts, known[1])
        if train.y.min() == train.y.max():
            raise DataError(f"{self.table.path}: the sample of training rows has one label only")
        return Scan(np.array([part.rows for part in parts]), mean, sd, known, train, test)

    def _scanned(self, index: int) -> Part:
        interrupts.check()
        columns, target, train = self.read(index)
        moments = np.array([_moments(column[train]) for column in columns]).reshape(-1, 2)
        codes = target.dictionary_encode()
        kinds, code = codes.dictionary.slice(0, SHOWN + 1).to_pylist(), codes.indices.to_numpy()
        picked = [self._picked(index, np.flatnonzero(rows), kind) for kind, rows in enumerate((train, ~train))]
        samples = [np.column_stack([column[rows] for column in columns]).astype(np.float64) for rows in picked]
        return Part(int(train.sum()), moments, kinds, samples, [code[rows] for rows in picked])

    def _picked(self, index: int, rows: np.ndarray, kind: int) -> np.ndarray:
        """The group's share of the sample, in proportion to its rows, so that all shares sum to `sample`."""
        groups = self.table.groups
        before = sum(group.rows for group in groups[:index])
        ends = [self.sample * rows // self.table.rows for rows in (before, before + groups[index].rows)]
        count = min(len(rows), self.sample if self.table.rows <= self.sample else ends[1] - ends[0])
        return np.sort(self._rng(SAMPLE, kind, index).choice(rows, count, replace=False))

    def _moments(self, parts: list[Part]) -> tuple[np.ndarray, np.ndarray]:
        total, mean, squares = 0, np.zeros(len(self.features)), np.zeros(len(self.features))
        for part in parts:
            if part.rows:
                step, share = part.moments[:, 0] - mean, part.rows / (total + part.rows)
                squares += part.moments[:, 1] + step**2 * total * share
                mean, total = mean + share * step, total + part.rows
        if total < 2:
            raise DataError(f"{self.table.path}: hold_out {self.hold_out} leaves {total} row(s) to train on")
        sd = np.sqrt(squares / (total - 1))
        constant = [name for name, one in zip(self.features, sd, strict=True) if not one > 0]
        if constant:
            shown = ", ".join(constant[:SHOWN])
            raise DataError(f"{self.table.path}: the same value in every training row: {shown}: drop these columns")
        return mean, sd

    def _samples(self, parts: list[Part], one: Any) -> Iterator[Rows]:
        for kind in range(2):
            x = np.concatenate([part.samples[kind] for part in parts])
            y = [np.array([label == one for label in part.kinds], np.float32)[part.codes[kind]] for part in parts]
            yield Rows(x, np.concatenate(y))

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose])


class Part(NamedTuple):
    """What the scan of one group found.

    Attributes:
        rows: number of training rows.
        moments: mean and sum of squared differences of each feature, over the training rows.
        kinds: the first labels.
        samples: features of the sampled training rows, and of the sampled test rows.
        codes: the label of each of these rows, as its place in `kinds`.
    """

    rows: int
    moments: np.ndarray
    kinds: list[Any]
    samples: list[np.ndarray]
    codes: list[np.ndarray]


def _moments(column: np.ndarray) -> tuple[float, float]:
    """The mean and the sum of squared differences from it, in double precision."""
    if not len(column):
        return 0.0, 0.0
    mean = column.mean(dtype=np.float64)
    return float(mean), float(np.square(column - mean, dtype=np.float64).sum())


def _labels(path: Path, target: str, parts: Sequence[Part]) -> tuple[Any, Any]:
    """The two labels, sorted; raises DataError if there are more or fewer."""
    found = {label for part in parts for label in part.kinds}
    try:
        known = sorted(found)
    except TypeError:
        raise DataError(f"{path}: the target {target} has labels of several types: use one") from None
    if len(known) != 2:
        more = ", ..." if len(known) > SHOWN else ""
        shown = ", ".join(map(str, known[:SHOWN])) + more
        raise DataError(f"{path}: the target {target} has {len(known)} label(s) ({shown}): exactly 2 are needed")
    return known[0], known[1]


def _exchanged(found: Mapping[int, Part]) -> list[Part]:
    """The parts of all processes, in the order of the groups."""
    if len(gather_bytes(b"")) == 1:
        return list(found.values())
    every: dict[int, Part] = {}
    for content in gather_bytes(_packed(found)):
        every |= _unpacked(content)
    return [every[index] for index in sorted(every)]


def _packed(found: Mapping[int, Part]) -> bytes:
    file = io.BytesIO()
    arrays: dict[str, np.ndarray] = {}
    for index, part in found.items():
        content = (part.moments, *part.samples, *part.codes)
        arrays |= {f"{index} {name}": array for name, array in zip(("moments", *"abcd"), content, strict=True)}
    heads = {index: (part.rows, part.kinds) for index, part in found.items()}
    named: Any = {"heads": np.frombuffer(json.dumps(heads, default=str).encode(), np.uint8), **arrays}
    np.savez(file, **named)
    return file.getvalue()


def _unpacked(content: bytes) -> dict[int, Part]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        heads = json.loads(arrays["heads"].tobytes())
        return {
            int(index): Part(
                rows,
                arrays[f"{index} moments"],
                kinds,
                [arrays[f"{index} {name}"] for name in "ab"],
                [arrays[f"{index} {name}"] for name in "cd"],
            )
            for index, (rows, kinds) in heads.items()
        }
