"""The file of a report's content, in the format of `civi.inference.archive`, without pickle."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import civi
from civi.errors import DataError
from civi.files import atomically
from civi.inference.archive import Arrays, pack, read_archive, unpack, write_archive
from civi.inference.check_file import check_runs, expect
from civi.inference.diagnose.trust import VERDICTS, Finding, Mode
from civi.inference.loo import Loo
from civi.inference.report.content import Content, Plane
from civi.inference.run_curve import RunCurve

FORMAT, VERSION = "civi report", 1
KNOWN: dict[str, type] = {part.__name__: part for part in (Content, Finding, Loo, Mode, Plane, RunCurve)}


def save_content(content: Content, path: Path) -> None:
    """Write the content of a report to a file."""
    arrays: Arrays = {}
    packed = pack(content, KNOWN, arrays)
    header = {"format": FORMAT, "version": VERSION, "civi": civi.__version__}
    atomically(path, lambda part: write_archive(part, header, packed, arrays))


def load_content(path: Path) -> Content:
    """Read the content of a report; a damaged or forged file is a DataError."""
    packed, arrays = read_archive(path, FORMAT, VERSION)
    try:
        content = unpack(packed, KNOWN, arrays)
        _check(content)
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{path} cannot be read: {reason[0][:300]}") from error
    return content


TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("title", "solver", "message", "headline", "objective", "training_note"), (str,)),
    **dict.fromkeys(("reference_name", "code"), (str,)),
    **dict.fromkeys(("measures", "settings"), (dict,)),
    **dict.fromkeys(("findings", "modes", "runs", "names"), (list,)),
    **dict.fromkeys(("draws", "log_ratios", "effective_size", "reference", "latents"), (np.ndarray, type(None))),
    **dict.fromkeys(("observed", "predictive", "phases", "versions", "fingerprints"), (dict,)),
    "loo": (Loo, type(None)),
    "too_many": (int,),
    "elbo": (tuple, type(None)),
    "plane": (Plane, type(None)),
}


def _check(content: Any) -> None:
    """Raise DataError unless every field has its type and the arrays fit together."""
    expect(type(content) is Content, "it does not hold the content of a report")
    for one in fields(Content):
        expect(isinstance(getattr(content, one.name), TYPES[one.name]), f"{one.name} is of a wrong type")
    known = all(type(finding) is Finding and finding.verdict in VERDICTS for finding in content.findings)
    expect(known and all(_is_number(finding.value) for finding in content.findings), "a finding is wrong")
    good = all(type(mode) is Mode and _is_number(mode.elbo) and _is_number(mode.share) for mode in content.modes)
    expect(good, "a mode is wrong")
    elbo = content.elbo
    expect(elbo is None or (len(elbo) == 2 and all(map(_is_number, elbo))), "elbo is not a number with its error")
    check_runs(content.runs)
    expect(all(isinstance(name, str) for name in content.names), "a name is not a text")
    for texts in (content.versions, content.fingerprints):
        expect(all(isinstance(text, str) for text in texts.values()), "a version or checksum is not a text")
    expect(all(map(_is_number, content.phases.values())), "a phase has no number of seconds")
    for arrays in (content.observed, content.predictive):
        expect(all(isinstance(array, np.ndarray) for array in arrays.values()), "data are not arrays")
    for site, made in content.predictive.items():
        fits = made.ndim >= 1 and site in content.observed and made.shape[1:] == content.observed[site].shape
        expect(fits and len(made) > 0, "replicated data do not have the shape of the data")
    if content.loo is not None:
        _check_loo(content.loo)
    _check_draws(content)
    if content.plane is not None:
        _check_plane(content.plane)


def _check_draws(content: Content) -> None:
    count = len(content.names)
    for name in ("draws", "reference"):
        array = getattr(content, name)
        fits = array is None or (array.ndim == 2 and array.shape[1] == count and len(array) > 0)
        expect(fits, f"{name} do not fit")
    sizes = content.effective_size
    expect(sizes is None or sizes.shape == (count,), "the effective sizes do not fit the names")
    ratios, draws = content.log_ratios, content.draws
    expect(ratios is None or (draws is not None and ratios.shape == draws.shape[:1]), "log_ratios do not fit the draws")
    expect(content.latents is None or content.latents.ndim == 3, "latents have a wrong shape")


def _check_loo(loo: Loo) -> None:
    tables = (loo.pointwise, loo.k_hats, loo.log_predictive)
    expect(all(isinstance(table, dict) and table for table in tables), "loo has no observations")
    every = [array for table in tables for array in table.values()]
    expect(all(isinstance(array, np.ndarray) and array.size for array in every), "loo does not hold arrays")
    expect(type(loo.draws) is int and loo.draws > 1, "loo has no number of draws")


def _check_plane(plane: Plane) -> None:
    ends = [*plane.x, *plane.y]
    expect(len(ends) == 4 and all(map(_is_number, ends)), "the grid has no limits")
    grids = [plane.p] if plane.q is None else [plane.p, plane.q]
    fits = all(isinstance(grid, np.ndarray) and grid.ndim == 2 and min(grid.shape) >= 2 for grid in grids)
    expect(fits, "a density on the grid has a wrong shape")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
