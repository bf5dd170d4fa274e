"""The report of a comparison: the ranked table with its spread, learning curves, and what diverged and when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from civi.errors import DataError
from civi.experiment.report.comparison import MAX_GROWTH, outcome_of
from civi.experiment.report.pictures import pictures
from civi.experiment.report.run_report import PAGE
from civi.experiment.solver_result import Curve, SolverResult
from civi.inference.report.compose import FOOTER, missing_list
from civi.inference.report.looks import look_of
from civi.inference.report.training import value_range
from civi.page import Chart, Column, Html, Scale, Section, Series, Table, View, page, tag, write_page
from civi.page.elements import details

FIGURES = ("draws.png", "marginals.png", "pairs.png", "predictive.png")


class Comparison(NamedTuple):
    """The content of comparison.json.

    Attributes:
        task: name of the task.
        primary: the measure that ranks the solvers; smaller is better.
        secondary: another measure; empty if it is not known.
        is_kl: whether the objective is KL(q || p).
        seeds: number of seeds.
        results: the results, best first.
    """

    task: str
    primary: str
    secondary: str
    is_kl: bool
    seeds: int
    results: list[SolverResult]


def read_comparison(folder: Path) -> Comparison:
    """Read comparison.json; DataError if it is damaged."""
    path = folder / "comparison.json"
    try:
        content = json.loads(path.read_text())
        results = [_result(one) for one in content["solvers"]]
        made = Comparison(
            str(content["task"]),
            str(content["rank_by"]),
            str(content.get("secondary", "")),
            content["rank_by"] == "kl",
            len(content["seeds"]),
            results,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path.name} is damaged: {type(error).__name__} {error}"[:300]) from error
    return made


def _result(entry: dict[str, Any]) -> SolverResult:
    """A solver's entry of comparison.json, in which numbers that are not finite are null."""
    curve = Curve(
        [int(step) for step in entry["curve"]["step"]],
        [float(seconds) for seconds in entry["curve"]["seconds"]],
        [[np.nan if value is None else float(value) for value in row] for row in entry["curve"]["neg_elbo"]],
    )
    measures = [{name: np.nan if value is None else value for name, value in row.items()} for row in entry["measures"]]
    return SolverResult(**entry | {"curve": curve, "measures": measures, "draws": np.zeros((0, 0))})


def write_comparison_report(folder: Path) -> Path:
    """Write the page of the comparison in a folder."""
    found = read_comparison(folder)
    write_page(folder / PAGE, comparison_page(found, folder))
    return folder / PAGE


def comparison_page(found: Comparison, folder: Path, missing: Sequence[str] = ()) -> Html:
    """The page of a comparison.

    Args:
        found: the comparison.
        folder: its folder, whose figures are shown too.
        missing: what could not be shown.
    """
    title = f"{found.task}: comparison of {len(found.results)} solvers"
    return page(title, [_lead(found), missing_list(missing)], comparison_sections(found, folder), FOOTER)


def comparison_sections(found: Comparison, folder: Path, prefix: str = "") -> list[Section]:
    """The sections of a comparison; `prefix` keeps their identifiers apart from others on the same page."""
    ranking = Section(f"{prefix}ranking", "Ranking", [ranked_table(found, prefix).element(), *_spread(found, prefix)])
    sections = [ranking, *_curves(found, prefix), _divergence(found, prefix)]
    return [*sections, *pictures(folder / "figures", FIGURES), _settings(found, prefix)]


def _lead(found: Comparison) -> Html:
    if not found.results or not len(found.results[0].values(found.primary)):
        return tag("div", tag("p", tag("strong", "No solver has a result yet.")), class_="verdict none")
    best = found.results[0]
    values = best.values(found.primary)
    lost = [result.solver for result in found.results if any(step is not None for step in result.diverged)]
    over = f"on average over {len(values)} seeds" if len(values) > 1 else "with one seed"
    text = f"{best.solver} has the lowest {found.primary}: {values.mean():.4g} {over}."
    others = f"Diverged with some seed: {', '.join(lost)}." if lost else "No solver diverged."
    return tag("div", tag("p", tag("strong", text)), tag("p", others), class_="verdict none")


def ranked_table(found: Comparison, prefix: str = "") -> Table:
    """The solvers, best first, with the spread over seeds."""
    rows = [_row(i + 1, result, found) for i, result in enumerate(found.results)]
    columns = [
        Column("solver", numeric=False),
        Column("rank"),
        Column(f"{found.primary}, mean", "over the seeds that did not diverge; smaller is better"),
        Column("sd over seeds"),
        Column("best"),
        Column("worst"),
        *([Column(found.secondary)] if found.secondary else []),
        Column("seconds per seed", "without compilation"),
        Column("compiling", "seconds"),
        Column("outcome", numeric=False),
    ]
    caption = f"{found.task}: {found.primary} over {found.seeds} seed{'s' * (found.seeds > 1)}, best first"
    return Table(f"{prefix}ranking-table", caption, columns, rows)


def _row(rank: int, result: SolverResult, found: Comparison) -> list[Any]:
    values, others = result.values(found.primary), result.values(found.secondary)
    spread: list[Any] = [None] * 4
    if len(values):
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        spread = [float(values.mean()), sd, float(values.min()), float(values.max())]
    other = [float(others.mean()) if len(others) else None] if found.secondary else []
    return [result.solver, rank, *spread, *other, result.seconds, result.compile_seconds, outcome_of(result)]


def _spread(found: Comparison, prefix: str) -> list[Html]:
    """The result of every seed."""
    series = []
    for i, result in enumerate(found.results):
        values = np.asarray(result.values(found.primary), float)
        if np.isfinite(values).any():
            colour, place = look_of(result.solver).colour, np.full(len(values), i + 1)
            series.append(Series(result.solver, place, values, kind="points", colour=colour))
    if not series or found.seeds < 2:
        return []
    positive = all((np.asarray(one.y)[np.isfinite(one.y)] > 0).all() for one in series)
    scale: Scale = "log" if positive else "linear"
    view = View("spread", series, "rank", found.primary, y_scale=scale)
    caption = "One point for each seed that did not diverge."
    return [Chart(f"{prefix}spread-chart", "Spread over seeds", caption, [view]).element()]


def _curves(found: Comparison, prefix: str) -> list[Section]:
    """Learning curves by step (or epoch) and by second."""
    drawn = [result for result in found.results if result.curve.step]
    if not drawn:
        return []
    in_epochs = all(result.epochs_a_step for result in drawn)
    label = "KL(q || p)" if found.is_kl else "negative ELBO"
    medians = [np.nanmedian(_bounded(result), axis=1) for result in drawn if None in result.diverged]
    limits = _kl_range(medians) if found.is_kl else value_range(medians)
    views = []
    for name in ("epochs" if in_epochs else "steps", "seconds"):
        series = [part for result in drawn for part in _curve(result, name)]
        scale: Scale = "linear" if name != "seconds" else "symlog"
        y_scale: Scale = "log" if found.is_kl else "linear"
        title = "seconds per seed" if name == "seconds" else name
        views.append(View(name, series, title, label, scale, y_scale, limits))
    caption = "Median and range over seeds, by one estimator for all solvers. The names switch solvers on and off."
    chart = Chart(f"{prefix}curves-chart", "Learning curves", caption, views, "against")
    return [Section(f"{prefix}curves", "Learning curves", [chart.element()])]


def _kl_range(medians: Sequence[np.ndarray]) -> tuple[float, float]:
    """Limits of the y axis of KL divergences: from half of the smallest one to 30."""
    finite = np.concatenate([[1.0], *(curve[np.isfinite(curve) & (curve > 0)] for curve in medians)])
    return max(1e-5, float(finite.min()) / 2), 30.0


def _bounded(result: SolverResult) -> np.ndarray:
    """neg_elbo (point, seed) without values that are far above the initial ones; all-NaN rows keep one huge value."""
    table = np.array(result.curve.neg_elbo, float)
    far = ~(np.abs(table) <= MAX_GROWTH * (np.abs(table[0]) + 1))
    table = np.where(far, np.nan, table)
    return np.where(np.isnan(table).all(axis=1)[:, None], np.inf, table)


def _curve(result: SolverResult, axis: str) -> list[Series]:
    factor = result.epochs_a_step if axis == "epochs" else 1
    x = np.asarray(result.curve.seconds if axis == "seconds" else result.curve.step, float) * (factor or 1)
    table, look = _bounded(result), look_of(result.solver).svg
    low, high = np.nanmin(table, axis=1), np.nanmax(table, axis=1)
    band = Series(result.solver, x, low, high, "band", **look)
    return [band, Series(result.solver, x, np.nanmedian(table, axis=1), **look)]


def _divergence(found: Comparison, prefix: str) -> Section:
    """What diverged, and when."""
    rows = [
        [result.solver, seed, step, result.steps, f"{step / max(result.steps, 1):.0%}"]
        for result in found.results
        for seed, step in enumerate(result.diverged)
        if step is not None
    ]
    if not rows:
        return Section(f"{prefix}divergence", "Divergence", [tag("p", "No seed of any solver diverged.")])
    columns = [
        Column("solver", numeric=False),
        Column("seed"),
        Column("diverged at step"),
        Column("of"),
        Column("share"),
    ]
    caption = "Seeds that diverged: halted, or at the end more than one nat above their initial value"
    table = Table(f"{prefix}divergence-table", caption, columns, rows)
    return Section(f"{prefix}divergence", "Divergence", [table.element()])


def _settings(found: Comparison, prefix: str) -> Section:
    """The settings in which the solvers differ from each other, and the others."""
    names = list(dict.fromkeys(name for result in found.results for name in result.settings))
    columns = [Column("setting", numeric=False), *(Column(result.solver, numeric=False) for result in found.results)]
    rows = [[name, *(str(result.settings.get(name, "-")) for result in found.results)] for name in names]
    table = Table(f"{prefix}settings-table", "Settings of all solvers", columns, rows, search=True)
    return Section(f"{prefix}settings", "How it was made", [details(f"Settings ({len(rows)})", table.element())])
