"""The sections of a report about the parameters: the table, the marginals, and the joint of any two."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from civi.inference.report.content import Content
from civi.inference.report.looks import DOTTED, REFERENCE, Look, look_of
from civi.inference.report.summary import misfit, moments, weights_of
from civi.page import Chart, Cloud, Column, Joint, Section, Series, Table, View, tag

MOST_ROWS, MOST_MARGINALS, MOST_JOINT = 2500, 250, 80
BINS, SMOOTH = 72, 1.6
BYTES_OF_JOINT = 700_000
LEVELS = (0.05, 0.5, 0.95)


def parameters(content: Content) -> Section | None:
    """The table and the figures of all parameters; the worst ones, if there are too many for a page."""
    if content.draws is None or not content.names:
        return None
    weights = weights_of(content)
    error = misfit(content, weights)
    order = np.arange(len(content.names)) if error is None else np.argsort(-error, kind="stable")
    parts: list[Any] = [_left_out(len(content.names), error is not None)]
    parts.append(_marginals(content, weights, np.sort(order[:MOST_MARGINALS]), int(order[0])).element())
    parts.append(_table(content, weights, np.sort(order[:MOST_ROWS])).element())
    if len(content.names) > 1:
        parts.append(_joint(content, weights, order[:MOST_JOINT], error is not None).element())
    return Section("parameters", "Parameters", parts)


def _left_out(count: int, ranked: bool) -> Any:
    if count <= MOST_JOINT:
        return None
    which = "the worst" if ranked else "the first"
    limits = ((MOST_ROWS, "rows of the table"), (MOST_MARGINALS, "marginals"), (MOST_JOINT, "joints"))
    shown = [f"{most} {what}" for most, what in limits if count > most]
    return tag("p", f"There are {count} parameters; the page has {which} {', '.join(shown)}.", class_="missing")


def _table(content: Content, weights: np.ndarray | None, chosen: np.ndarray) -> Table:
    draws = np.asarray(content.draws, np.float64)[:, chosen]
    sizes = None if content.effective_size is None else content.effective_size[chosen]
    ours = moments(draws, None, sizes)
    columns = [Column("parameter", numeric=False), Column("mean"), Column("sd")]
    values: list[np.ndarray] = [ours.mean, ours.sd]
    for level, quantile in zip(LEVELS, np.quantile(draws, LEVELS, axis=0), strict=True):
        columns.append(Column(f"{level:.0%}", "quantile"))
        values.append(quantile)
    columns += [
        Column("error of mean", "Monte Carlo standard error of the mean"),
        Column("error of sd", "Monte Carlo standard error of the standard deviation"),
    ]
    values += [ours.mean_error, ours.sd_error]
    for label, truth in _truths(content, weights, chosen).items():
        with np.errstate(all="ignore"):
            shift = (ours.mean - truth.mean) / truth.sd
        columns += [Column(f"mean, {label}"), Column(f"sd, {label}"), Column("shift", f"(mean - that of {label}) / sd")]
        values += [truth.mean, truth.sd, shift]
    names = [content.names[i] for i in chosen]
    rows = [[name, *(float(value[i]) for value in values)] for i, name in enumerate(names)]
    caption = "Parameters: a title sorts, a name shows the marginal above"
    return Table("parameters-table", caption, columns, rows, search=len(rows) > 8, shows="marginals-chart")


def _truths(content: Content, weights: np.ndarray | None, chosen: np.ndarray) -> dict[str, Any]:
    draws = np.asarray(content.draws, np.float64)[:, chosen]
    truths = {} if weights is None else {"weighted": moments(draws, weights)}
    if content.reference is not None:
        truths[content.reference_name] = moments(np.asarray(content.reference, np.float64)[:, chosen])
    return truths


def _marginals(content: Content, weights: np.ndarray | None, chosen: np.ndarray, worst: int) -> Chart:
    first = [i for i in chosen if i == worst]
    views = [_marginal(content, weights, int(i)) for i in (*first, *(i for i in chosen if i != worst))]
    known = content.reference is not None
    filled = f"Filled: {content.reference_name}. " if known else ""
    solid = "Line: draws of the fit. " if content.draws is not None else ""
    dotted = "" if weights is None else "Dotted: the same draws, weighted by p / q. "
    caption = f"{filled}{solid}{dotted}The parameter that is furthest off comes first."
    return Chart("marginals-chart", "Marginals", caption, views, "parameter")


def _marginal(content: Content, weights: np.ndarray | None, i: int) -> View:
    look = look_of(content.solver)
    x = np.asarray(content.draws, np.float64)[:, i]
    known = None if content.reference is None else np.asarray(content.reference, np.float64)[:, i]
    edges = edges_of([x] if known is None else [x, known])
    middle = (edges[1:] + edges[:-1]) / 2
    series = []
    if known is not None:
        filled = Series(content.reference_name, middle, density(known, edges), kind="area", colour=REFERENCE.colour)
        series.append(filled)
    series.append(Series(content.solver, middle, density(x, edges), **look.svg))
    if weights is not None:
        dotted = Look(look.colour, DOTTED).svg
        series.append(Series(f"{content.solver}, weighted", middle, density(x, edges, weights), **dotted))
    return View(content.names[i], series, content.names[i], "density")


def edges_of(samples: list[np.ndarray]) -> np.ndarray:
    """Edges of the bins of a histogram that shows nearly all of these draws."""
    finite = [values[np.isfinite(values)] for values in samples]
    ends = [np.quantile(values, (0.001, 0.999)) for values in finite if values.size]
    low, high = (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else (0.0, 1.0)
    room = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
    every = np.concatenate(finite) if finite else np.zeros(1)
    low, high = max(low - room, every.min(initial=low)), min(high + room, every.max(initial=high))
    return np.linspace(low, high if high > low else low + 1, BINS + 1)


def density(values: np.ndarray, edges: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """A smooth histogram. At its ends it is reflected, so that a density with an edge keeps it."""
    height, _ = np.histogram(values, edges, weights=weights, density=True)
    return gaussian_filter1d(np.nan_to_num(height), SMOOTH, mode="reflect")


def _joint(content: Content, weights: np.ndarray | None, order: np.ndarray, ranked: bool) -> Joint:
    chosen = np.sort(order)
    sources = 1 + (content.reference is not None)
    count = int(np.clip(BYTES_OF_JOINT / (2.7 * len(chosen) * sources), 300, 2000))
    draws, part = _some(np.asarray(content.draws), chosen, count)
    look = look_of(content.solver)
    clouds = []
    if content.reference is not None:
        known, _ = _some(np.asarray(content.reference), chosen, count)
        clouds.append(Cloud(content.reference_name, known, filled=True, colour=REFERENCE.colour))
    clouds.append(Cloud(content.solver, draws, **look.svg))
    if weights is not None:
        dotted = Look(look.colour, DOTTED).svg
        clouds.append(Cloud(f"{content.solver}, weighted", draws, weights[part] / weights[part].sum(), **dotted))
    place = [int(np.flatnonzero(chosen == i)[0]) for i in order[:2]]
    caption = "Regions with 90 % and 50 % of the draws. "
    caption += "The two parameters that are furthest off come first." if ranked else "Choose any two parameters."
    return Joint(
        "joint-chart",
        "Joint of two parameters",
        caption,
        [content.names[i] for i in chosen],
        clouds,
        (place[0], place[1]),
    )


def _some(draws: np.ndarray, columns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `count` evenly spaced draws of some columns, and their numbers."""
    part = np.unique(np.linspace(0, len(draws) - 1, min(count, len(draws))).astype(int))
    return np.ascontiguousarray(draws[np.ix_(part, columns)]), part
