"""The paper's figures of regressions: marginals, pairs of coordinates, and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.ndimage import gaussian_filter

from civi.experiment.data.regression import RegressionData
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.figure_file import save_figure
from civi.experiment.report.toy_figure import mass_levels
from civi.inference.diagnose.predictive import predictive
from civi.inference.report.looks import look_of

matplotlib.use("Agg")
PAPER = ("nuts", "civi", "mfvb")
BINS = 40
ROOM = 0.06


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """The colour of each solver, the same in all figures."""
    return {name: look_of(name).colour for name in names}


def as_in_paper(draws: DrawsBySolver) -> DrawsBySolver:
    """Select at most three solvers, to keep figures readable: first those of the paper, then the others."""
    if len(draws) <= len(PAPER):
        return draws
    first = [name for name in PAPER if name in draws]
    others = [name for name in draws if name not in PAPER]
    return {name: draws[name] for name in [*first, *others][: len(PAPER)]}


def draw_marginals(draws: DrawsBySolver, columns: Sequence[str], path: Path, title: str) -> Path:
    """Draw a violin with median and quartiles for every coordinate and solver.

    Args:
        draws: draws (draw, coordinate) of each solver.
        columns: names of the coordinates.
        path: the image file.
        title: name of the task, for the title.
    """
    draws = as_in_paper(draws)
    colours, width = colours_of(list(draws)), 0.85 / len(draws)
    figure = Figure(figsize=(max(6.0, 0.42 * len(columns) * (1 + 0.35 * len(draws))), 4.8), layout="constrained")
    axes = figure.subplots()
    for i, (name, values) in enumerate(draws.items()):
        place = np.arange(len(columns)) + (i - (len(draws) - 1) / 2) * width
        parts = axes.violinplot(values[:4000], place, widths=width, showextrema=False)
        for body in cast(list[Any], parts["bodies"]):
            body.set(facecolor=colours[name], edgecolor=colours[name], alpha=0.3 if look_of(name).dash else 0.75)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        axes.vlines(place, low, high, color="black", linewidth=1)
        axes.plot(place, middle, "o", color="white", markeredgecolor="black", markersize=3, markeredgewidth=0.6)
    axes.set_xticks(range(len(columns)), columns, rotation=45 if len(columns) > 6 else 0)
    axes.set(ylabel="coefficient", title=f"{title}: marginal posteriors", xlim=(-0.6, len(columns) - 0.4))
    axes.grid(axis="y", alpha=0.3)
    figure.legend(handles=_handles(colours), loc="outside right upper", frameon=False)
    save_figure(figure, path, dpi=130)
    return path


def draw_pairs(draws: DrawsBySolver, columns: Sequence[str], path: Path, title: str) -> Path:
    """Draw 90% and 50% regions of all pairs of coordinates below the diagonal, and marginals on it.

    The first of several solvers, the reference, is filled, and the others are lines, so that all are seen where they
    coincide.

    Args:
        draws: draws (draw, coordinate) of each solver.
        columns: names of the coordinates.
        path: the image file.
        title: name of the task, for the title.
    """
    shown = as_in_paper(draws)
    colours, count = colours_of(list(shown)), len(columns)
    every = np.concatenate(list(shown.values()))
    low, high = np.quantile(every, 0.001, axis=0), np.quantile(every, 0.999, axis=0)
    size = min(16.0, 1.5 + 1.3 * count)
    figure = Figure(figsize=(size, size), layout="constrained")
    axes = figure.subplots()
    for i, (name, values) in enumerate(shown.items()):
        cells, pen = (values - low) / (high - low), (colours[name], i == 0 and len(shown) > 1)
        for row in range(count):
            _draw_marginal(axes, cells[:, row], row, count, *pen)
            for column in range(row):
                _draw_joint(axes, cells[:, column], cells[:, row], column, count - 1 - row, *pen)
    _frame_cells(axes, columns)
    figure.legend(handles=_handles(colours), loc="upper right", bbox_to_anchor=(0.98, 0.94), frameon=False, fontsize=14)
    figure.suptitle(f"{title}: joint posteriors of all pairs, 90% and 50% regions")
    save_figure(figure, path, dpi=110)
    return path


def _draw_marginal(axes: Axes, values: np.ndarray, row: int, count: int, colour: str, filled: bool) -> None:
    height, edges = np.histogram(values, BINS, (0, 1))
    smooth = gaussian_filter(height.astype(float), 1.0)
    smooth = smooth / max(smooth.max(), 1e-12)
    x = row + ROOM + (1 - 2 * ROOM) * (edges[1:] + edges[:-1]) / 2
    floor = count - 1 - row + ROOM
    if filled:
        axes.fill_between(x, floor, floor + (1 - 2 * ROOM) * smooth, color=colour, alpha=0.35, linewidth=0)
    else:
        axes.plot(x, floor + (1 - 2 * ROOM) * smooth, color=colour, linewidth=1.2)


def _draw_joint(axes: Axes, x: np.ndarray, y: np.ndarray, left: int, bottom: int, colour: str, filled: bool) -> None:
    table, edges, _ = np.histogram2d(y, x, BINS, ((0, 1), (0, 1)))
    smooth = gaussian_filter(table, 1.5)
    middle = ROOM + (1 - 2 * ROOM) * (edges[1:] + edges[:-1]) / 2
    levels = mass_levels(smooth, (0.9, 0.5))
    place = left + middle, bottom + middle
    if filled:
        shades = [to_rgba(colour, 0.25), to_rgba(colour, 0.5)]
        axes.contourf(*place, smooth, levels=[*levels, np.inf], colors=shades)
    else:
        axes.contour(*place, smooth, levels=levels, colors=colour, linewidths=1.2)


def _frame_cells(axes: Axes, columns: Sequence[str]) -> None:
    """Draw the grid of the lower triangle, with the column names at the left and below."""
    count = len(columns)
    for row in range(count):
        axes.hlines([count - 1 - row, count - row], 0, row + 1, color="0.8", linewidth=0.6)
        axes.vlines(np.arange(row + 2), count - 1 - row, count - row, color="0.8", linewidth=0.6)
    tilted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if count > 6 else {}
    axes.set_xticks(np.arange(count) + 0.5, columns, **tilted)
    axes.set_yticks(count - np.arange(count) - 0.5, columns)
    axes.set(xlim=(-0.05, count + 0.05), ylim=(-0.05, count + 0.05), aspect="equal")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw_predictive(draws: DrawsBySolver, data: RegressionData, path: Path) -> Path:
    """Draw mean and sd of the predicted probability of each row against the reference, and the calibration.

    Args:
        draws: draws of each solver; the first one is the reference.
        data: predictions are made for its test rows, or for its training rows if it has no test rows.
        path: the image file.
    """
    draws = as_in_paper(draws)
    rows = "test" if len(data.y_test) else "training"
    x, y = (data.x_test, data.y_test) if len(data.y_test) else (data.x_train, data.y_train)
    some = np.random.default_rng(0).permutation(len(y))[:3000]
    x, y = x[some], y[some]
    colours = colours_of(list(draws))
    found = {name: predictive(x, values[:4000]) for name, values in draws.items()}
    first, *others = found
    figure = Figure(figsize=(14, 4.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for k, (axes, what) in enumerate(zip(panels, ("mean", "standard deviation"), strict=False)):
        for name in others:
            axes.plot(found[first][k], found[name][k], ".", color=colours[name], markersize=3, alpha=0.5)
        end = max(pair[k].max() for pair in found.values()) * 1.02
        axes.plot([0, end], [0, end], color="black", linewidth=0.8)
        axes.set(xlabel=f"{what}, {first}", ylabel=f"{what}, others", title=f"{what} of the predicted probability")
    for name, (probability, _) in found.items():
        groups = np.array_split(np.argsort(probability), min(10, len(y)))
        shares = [(probability[group].mean(), y[group].mean()) for group in groups]
        panels[2].plot(*zip(*shares, strict=True), "o-", color=colours[name], markersize=4, linewidth=1)
    panels[2].plot([0, 1], [0, 1], color="black", linewidth=0.8)
    panels[2].set(xlabel="predicted probability", ylabel="fraction of ones", title="calibration in ten equal groups")
    figure.legend(handles=_handles(colours), loc="outside right upper", frameon=False)
    figure.suptitle(f"{data.name}: predictions on {len(y)} {rows} rows")
    save_figure(figure, path, dpi=120)
    return path


def _handles(colours: dict[str, str]) -> list[Line2D]:
    """Entries of the legend; a solver that shares its colour with another one is dashed."""
    return [Line2D([], [], **look_of(name).matplotlib, linewidth=4, label=name) for name in colours]
