"""`civi report`: the page of one folder, or of several side by side; what is missing or damaged is said on the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from civi.errors import CiviError, DataError
from civi.experiment.report.comparison_report import comparison_page, read_comparison
from civi.experiment.report.pictures import pictures
from civi.experiment.report.run_report import loading, read_content
from civi.experiment.report.sentences import sentence_sections
from civi.experiment.report.side_by_side import Entry, side_by_side_page
from civi.inference.report.compose import report_page
from civi.inference.report.content import Content, flattened
from civi.inference.run_curve import curve_of
from civi.page import Html
from civi.progress import measures

EXPECTED = ("config.json", "metrics.json", "history.csv", "draws.nc", "posterior.civi")


def page_of(folders: Sequence[Path]) -> Html:
    """The page of these folders.

    Args:
        folders: folders of runs, fits and comparisons.
    """
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}: check the path")
    entries = [_entry(folder) for folder in folders]
    if len(entries) > 1:
        return side_by_side_page(entries)
    (one,) = entries
    if one.comparison is not None:
        return comparison_page(one.comparison, one.folder, one.missing)
    figures = one.folder / "figures"
    return report_page(one.content, [*sentence_sections(figures), *pictures(figures)], one.missing)


def _entry(folder: Path) -> Entry:
    """What a folder holds."""
    if (folder / "comparison.json").exists():
        try:
            return Entry(folder, Content(title=str(folder)), read_comparison(folder), [])
        except CiviError as error:
            return Entry(folder, Content(title=str(folder)), None, [str(error)])
    try:
        return Entry(folder, read_content(folder), None, [])
    except CiviError as error:
        content, missing = salvaged(folder)
        return Entry(folder, content, None, [str(error), *missing])


def salvaged(folder: Path) -> tuple[Content, list[str]]:
    """The content that the other files of a folder give, and a line for each that is missing or damaged."""
    missing = [f"{name} is missing." for name in EXPECTED if not (folder / name).exists()]
    fields: dict[str, Any] = {"title": str(folder), "code": loading(folder)}
    if not (folder / "posterior.civi").exists():
        fields["code"] = ""
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        "config.json": _config,
        "metrics.json": _metrics,
        "history.csv": _history,
        "draws.nc": _draws,
    }
    for name, read in readers.items():
        if not (folder / name).exists():
            continue
        try:
            fields |= read(folder / name)
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            missing.append(f"{name} is damaged: {reason[0][:200]}")
    return Content(**fields), missing


def _config(path: Path) -> dict[str, Any]:
    config = dict(json.loads(path.read_text()))
    settings = config.pop("settings", {})
    solver = str(config.get("solver", "civi"))
    name = config.get("task") or config.get("model")
    return {"title": f"{name} with {solver}", "solver": solver, "settings": config | dict(settings)}


def _metrics(path: Path) -> dict[str, Any]:
    metrics = dict(json.loads(path.read_text()))
    plain = {name: value for name, value in metrics.items() if not isinstance(value, list | dict)}
    return {"measures": dict(measures(plain)), "message": str(metrics.get("message", ""))}


def _history(path: Path) -> dict[str, Any]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name] or "nan") for row in rows]) for name in ("step", "seconds", "neg_elbo")}
    return {"runs": [curve_of(columns)]}


def _draws(path: Path) -> dict[str, Any]:
    import xarray  # noqa: PLC0415 start-up time

    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as data:
        names, draws = flattened({str(name): value.values for name, value in data.data_vars.items()}, lead=2)
    return {"names": names, "draws": draws[:4000].astype(np.float32)}
