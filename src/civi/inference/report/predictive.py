"""The sections of a report about the data: posterior predictive check and leave-one-out cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from civi.inference.report.content import Content
from civi.inference.report.looks import REFERENCE, look_of
from civi.page import Chart, Column, Html, Section, Series, Table, View, tag
from civi.page.elements import facts

BINS, DISCRETE = 90, 40
STATISTICS: dict[str, Callable[..., Any]] = {"mean": np.mean, "sd": np.std, "smallest": np.min, "largest": np.max}


def predictive(content: Content) -> Section | None:
    """Replicated data against the data, for each observed site."""
    sites = [site for site in content.observed if site in content.predictive]
    if not sites:
        return None
    views = [_view(site, content) for site in sites]
    caption = "Filled: the data. Line and band: median and 90 % interval of data that the fitted model replicates."
    chart = Chart("predictive-chart", "Data and replicated data", caption, views, "site")
    return Section("predictive", "Posterior predictive check", [chart.element(), _statistics(sites, content)])


def _flat(content: Content, site: str) -> tuple[np.ndarray, np.ndarray]:
    data = np.asarray(content.observed[site], np.float64).reshape(-1)
    made = np.asarray(content.predictive[site], np.float64)
    return data, made.reshape(len(made), -1)


def _view(site: str, content: Content) -> View:
    data, made = _flat(content, site)
    edges, smooth = _edges(data, made)
    middle = (edges[1:] + edges[:-1]) / 2
    some = made[:: max(1, len(made) // 200)]
    heights = np.stack([_heights(row, edges, smooth) for row in some])
    low, median, high = np.quantile(heights, (0.05, 0.5, 0.95), axis=0)
    look = look_of(content.solver).svg
    series = [
        Series("data", middle, _heights(data, edges, smooth), kind="area", colour=REFERENCE.colour),
        Series("replicated", middle, low, high, "band", **look),
        Series("replicated", middle, median, **look),
    ]
    return View(site, series, site, "density" if smooth else "share of the observations")


def _edges(data: np.ndarray, made: np.ndarray) -> tuple[np.ndarray, float]:
    """Edges of bins, and by how many of them a density is smoothed (Silverman's rule).

    Whole numbers, if there are few of them, have a bin each and are not smoothed.
    """
    every = np.concatenate([data, made[:50].reshape(-1)])
    every = every[np.isfinite(every)]
    low, high = np.quantile(every, (0.002, 0.998)) if every.size else (0.0, 1.0)
    low, high = min(low, data.min(initial=low)), max(high, data.max(initial=high))
    if np.all(data == np.round(data)) and high - low < DISCRETE:
        return np.arange(np.floor(low) - 1.5, np.ceil(high) + 2.0), 0.0
    room = 0.1 * (high - low) or 0.5
    edges = np.linspace(low - room, high + room, BINS + 1)
    return edges, max(1.0, 0.9 * float(data.std()) * len(data) ** -0.2 / (edges[1] - edges[0]))


def _heights(values: np.ndarray, edges: np.ndarray, smooth: float) -> np.ndarray:
    counts = np.histogram(values, edges)[0] / max(len(values), 1)
    return gaussian_filter1d(counts / (edges[1] - edges[0]), smooth, mode="constant") if smooth else counts


def _statistics(sites: list[str], content: Content) -> Html:
    """Statistics of the data and of replicated data, with the share of replicated values that are as large."""
    rows: list[list[Any]] = []
    for site in sites:
        data, made = _flat(content, site)
        for name, statistic in STATISTICS.items():
            replicated = statistic(made, axis=1)
            value = float(statistic(data))
            low, high = np.quantile(replicated, (0.05, 0.95))
            rows.append([f"{name} of {site}", value, float(low), float(high), float(np.mean(replicated >= value))])
    columns = [
        Column("statistic", numeric=False),
        Column("data"),
        Column("5 %", "of replicated data"),
        Column("95 %", "of replicated data"),
        Column("replicates above", "share of replicated data with a value at least as large; near 0 or 1 is a misfit"),
    ]
    return Table("predictive-table", "Statistics of data and replicated data", columns, rows).element()


def loo(content: Content) -> Section | None:
    """Leave-one-out cross-validation, with a k-hat for every observation."""
    title, found = "Leave-one-out cross-validation", content.loo
    if content.too_many:
        text = f"There are {content.too_many} observations, too many for this page: posterior.loo(key) computes it."
        return Section("loo", title, [tag("p", text, class_="missing")])
    if found is None:
        return None
    numbers = [("elpd", f"{found.elpd:.2f} ± {found.se:.2f}"), ("p_loo", f"{found.p_loo:.2f}")]
    views = [_k_hats(site, values.reshape(-1), found.limit, content) for site, values in found.k_hats.items()]
    caption = f"An observation above {found.limit:.2g} has too much influence for this estimate."
    chart = Chart("loo-chart", "k-hat of every observation", caption, views, "site")
    return Section("loo", title, [facts(numbers), tag("p", found.sentence), chart.element()])


def _k_hats(site: str, k_hats: np.ndarray, limit: float, content: Content) -> View:
    index = np.arange(len(k_hats))
    labels = [f"{site}[{i}]" for i in index]
    points = Series("k-hat", index, k_hats, kind="points", colour=look_of(content.solver).colour, labels=labels)
    finite = k_hats[np.isfinite(k_hats)]
    limits = min(-0.2, float(finite.min(initial=0.0))), max(1.0, float(finite.max(initial=0.0)) + 0.1)
    return View(site, [points], "observation", "k-hat", y_range=limits, levels=[(limit, "limit")])
