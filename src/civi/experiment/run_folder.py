"""The folder of a run: which files it holds, how it is prepared, and how they are written."""

from __future__ import annotations

import csv
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from civi.errors import OutputError
from civi.files import atomically
from civi.inference.labelled import datasets, tree_of, write_tree

RUN = (
    *("config.json", "metrics.json", "history.csv", "draws.nc", "posterior.civi", "figures", "checkpoints"),
    *("report.civi", "report.html"),
)
COMPARISON = ("comparison.json", "comparison.md", "solvers")
NAMES = (*RUN, *COMPARISON)


def existing(folder: Path) -> list[str]:
    """The files of a run or a comparison that are in this folder."""
    return [name for name in NAMES if (folder / name).exists()]


def prepare(folder: Path, *, force: bool, resumable: bool = True) -> None:
    """Create the folder for a new run and check that it is writable.

    Args:
        folder: the folder.
        force: whether to delete an existing run; otherwise it is an error.
        resumable: whether the error should suggest --resume.
    """
    try:
        found = existing(folder) if folder.is_dir() else []
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error
    if found and not force:
        ways = [
            "choose another --out",
            *(["resume with --resume"] if resumable else []),
            "or replace it with --force",
        ]
        raise OutputError(f"{folder} already holds a run ({', '.join(found)}): {', '.join(ways)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-test-{os.getpid()}"
        probe.touch()
        probe.unlink()
        for name in found:
            _remove(folder / name)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error


def _remove(path: Path) -> None:
    """Delete one file or folder of a run. In figures/ only PNG files are deleted, so that the user's notes are kept."""
    if path.name == "figures":
        for picture in path.glob("*.png"):
            picture.unlink()
        if not any(path.iterdir()):
            path.rmdir()
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def write_history(path: Path, history: dict[str, np.ndarray]) -> None:
    """Write one row per step; a number that is not finite becomes an empty cell."""

    def write(part: Path) -> None:
        with part.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(history)
            for row in zip(*history.values(), strict=True):
                writer.writerow([f"{value:.9g}" if math.isfinite(value) else "" for value in row])

    atomically(path, write)


def write_draws(path: Path, draws: np.ndarray, attributes: dict[str, Any]) -> None:
    """Write posterior draws of z as netCDF in the schema of ArviZ.

    Args:
        path: the netCDF file.
        draws: draws of shape (draw, dim), or (chain, draw, ..., dim).
        attributes: attributes of the file.
    """
    groups = {"posterior": {"z": draws if draws.ndim > 2 else draws[None]}}
    write_tree(path, tree_of(datasets(groups, {}), attributes))
