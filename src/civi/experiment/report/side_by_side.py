"""The page of several folders: a table of their results, and their learning curves and marginals in one chart each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from civi.experiment.report.comparison_report import Comparison, ranked_table
from civi.inference.diagnose.trust import verdict
from civi.inference.report.compose import FOOTER, missing_list
from civi.inference.report.content import Content
from civi.inference.report.looks import REFERENCE, Look, look_of, looks_of
from civi.inference.report.parameters import density, edges_of
from civi.inference.report.training import curve_views
from civi.inference.report.verdict import verdict_box
from civi.page import Chart, Column, Html, Section, Series, Table, View, page, tag

MOST_MARGINALS = 60
DIFFERENT = " These are different problems: their values cannot be compared."


class Entry(NamedTuple):
    """What one folder holds: the content of a run or fit, or a comparison, and what is missing."""

    folder: Path
    content: Content
    comparison: Comparison | None
    missing: list[str]


def side_by_side_page(entries: Sequence[Entry]) -> Html:
    """The page of several folders."""
    runs = [entry for entry in entries if entry.comparison is None]
    names = _names(runs)
    looks = _looks(runs)
    made = [_results(runs, names), _curves(runs, names, looks), _marginals(runs, names, looks)]
    sections = [section for section in made if section is not None]
    sections += [_ranking(entry, i) for i, entry in enumerate(entries) if entry.comparison is not None]
    sections.append(_verdicts(entries))
    lead = tag("p", f"{len(entries)} folders side by side: {', '.join(str(entry.folder) for entry in entries)}.")
    return page(f"Report of {len(entries)} folders", lead, sections, FOOTER)


def _names(runs: Sequence[Entry]) -> list[str]:
    """The title of each run; those that occur twice are told apart by their folders."""
    titles = [entry.content.title for entry in runs]
    pairs = zip(titles, runs, strict=True)
    return [title if titles.count(title) == 1 else f"{title} ({entry.folder})" for title, entry in pairs]


def _looks(runs: Sequence[Entry]) -> list[Look]:
    """The look of each run: that of its solver, if all solvers differ."""
    solvers = [entry.content.solver for entry in runs]
    return [look_of(name) for name in solvers] if len(set(solvers)) == len(solvers) else looks_of(solvers)


def _results(runs: Sequence[Entry], names: Sequence[str]) -> Section | None:
    if not runs:
        return None
    measures = list(dict.fromkeys(name for entry in runs for name in entry.content.measures))
    columns = [Column("result", numeric=False), *(Column(name, numeric=False) for name in names)]
    rows: list[list[Any]] = [
        ["verdict", *(verdict(e.content.findings) if e.content.findings else "not judged" for e in runs)],
        ["ELBO", *(_elbo(entry.content) for entry in runs)],
        ["parameters", *(len(entry.content.names) or None for entry in runs)],
        ["training", *(entry.content.message or None for entry in runs)],
    ]
    rows += [[name, *(entry.content.measures.get(name) for entry in runs)] for name in measures]
    table = Table("results-table", "Results of all folders", columns, rows)
    return Section("results", "Results", [table.element()])


def _elbo(content: Content) -> str | None:
    return None if content.elbo is None else f"{content.elbo[0]:.4f} ± {content.elbo[1]:.4f}"


def _curves(runs: Sequence[Entry], names: Sequence[str], looks: Sequence[Look]) -> Section | None:
    named, shown = [], []
    for entry, name, look in zip(runs, names, looks, strict=True):
        kept = [run for run in entry.content.runs if run.chosen and len(run.step)]
        named += [(name, run) for run in kept[:1]]
        shown += [look] * len(kept[:1])
    if not named:
        return None
    objectives = {entry.content.objective for entry in runs}
    label = objectives.pop() if len(objectives) == 1 else "objective"
    views = curve_views(named, shown, label)
    caption = "The run of each folder that was kept. The names switch folders on and off; drag sideways to zoom."
    different = len({tuple(entry.content.names) for entry in runs}) > 1
    chart = Chart("curves-chart", "Learning curves", caption + DIFFERENT * different, views, "against")
    return Section("curves", "Learning curves", [chart.element()])


def _marginals(runs: Sequence[Entry], names: Sequence[str], looks: Sequence[Look]) -> Section | None:
    """Marginals of the parameters that all folders have."""
    drawn = [(e.content, name, look) for e, name, look in zip(runs, names, looks, strict=True) if e.content.names]
    common = [name for name in drawn[0][0].names if all(name in c.names for c, _, _ in drawn)] if drawn else []
    if not common:
        return None
    views = [_marginal(parameter, drawn) for parameter in common[:MOST_MARGINALS]]
    caption = "Parameters that all folders have. Filled: reference draws, where there are any."
    chart = Chart("marginals-chart", "Marginals", caption, views, "parameter")
    return Section("parameters", "Parameters", [chart.element()])


def _marginal(parameter: str, drawn: Sequence[tuple[Content, str, Look]]) -> View:
    def column(content: Content, draws: np.ndarray | None) -> np.ndarray:
        return np.asarray(draws, np.float64)[:, content.names.index(parameter)]

    samples = [column(content, content.draws) for content, _, _ in drawn if content.draws is not None]
    known = [content for content, _, _ in drawn if content.reference is not None][:1]
    edges = edges_of([*samples, *(column(content, content.reference) for content in known)])
    middle = (edges[1:] + edges[:-1]) / 2
    series = [
        Series(
            content.reference_name,
            middle,
            density(column(content, content.reference), edges),
            kind="area",
            colour=REFERENCE.colour,
        )
        for content in known
    ]
    series += [
        Series(name, middle, density(column(content, content.draws), edges), **look.svg)
        for content, name, look in drawn
        if content.draws is not None
    ]
    return View(parameter, series, parameter, "density")


def _ranking(entry: Entry, i: int) -> Section:
    assert entry.comparison is not None
    prefix = f"folder{i}-"
    return Section(
        f"{prefix}ranking", f"Comparison in {entry.folder}", [ranked_table(entry.comparison, prefix).element()]
    )


def _verdicts(entries: Sequence[Entry]) -> Section:
    """For each folder its verdict and what is missing."""
    parts: list[Any] = []
    for entry in entries:
        parts.append(tag("h3", str(entry.folder)))
        parts += [verdict_box(entry.content)] if entry.comparison is None else []
        parts.append(missing_list(entry.missing))
    return Section("folders", "Folders", parts)
