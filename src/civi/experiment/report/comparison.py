"""The comparison of solvers: a live table, a Markdown table and learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from civi.experiment.report.figure_file import save_figure
from civi.experiment.solver_result import Compared, SolverResult, ranked
from civi.inference.report.looks import look_of

matplotlib.use("Agg")
MAX_GROWTH = 1e3  # values larger than this many times the initial value are not drawn


def _header(task: Compared) -> list[str]:
    return ["solver", "mean", "sd over seeds", "worst", task.secondary_metric, "seconds per seed", "outcome"]


def cells(result: SolverResult, task: Compared) -> list[str]:
    """One row of the table; the columns are those of `_header`."""
    values, others = result.values(task.primary_metric), result.values(task.secondary_metric)
    if len(values):
        sd = f"{values.std(ddof=1):.4f}" if len(values) > 1 else "-"
        numbers = [f"{values.mean():.4f}", sd, f"{values.max():.4f}"]
    else:
        numbers = ["-", "-", "-"]
    other = f"{others.mean():.4f}" if len(others) else "-"
    return [result.solver, *numbers, other, f"{result.seconds:.1f}", outcome_of(result)]


def outcome_of(result: SolverResult) -> str:
    """Describe how the runs ended: finished, how many seeds diverged, or the convergence of NUTS."""
    steps = [step for step in result.diverged if step is not None]
    if steps:
        return f"{len(steps)} of {len(result.diverged)} diverged, first at step {min(steps)}"
    if "r_hat" in result.measures[0]:
        r_hat, size = result.values("r_hat").max(), result.values("effective_size").min()
        return f"R-hat at most {r_hat:.3f}, effective size at least {size:.0f}"
    return f"finished {result.steps} steps"


def live_table(done: Sequence[SolverResult], waiting: Sequence[str], now: str, task: Compared) -> Table:
    """The table during a comparison: finished solvers (best first), then the running one and those still waiting.

    Args:
        done: the results so far.
        waiting: names of the solvers that are not finished; the first one is running.
        now: the status of the running solver.
        task: the task.
    """
    title = f"{task.name}: {task.primary_metric} of each solver, best first"
    table = Table(title=title, title_justify="left")
    for name in (header := _header(task)):
        table.add_column(name, justify="left" if name in (header[0], header[-1]) else "right")
    for result in ranked(done, task.primary_metric):
        table.add_row(*cells(result, task))
    for i, name in enumerate(waiting):
        table.add_row(name, *[""] * 5, now if i == 0 else "waiting", style="dim")
    return table


def markdown(best_first: Sequence[SolverResult], task: Compared) -> str:
    """The final table as Markdown."""
    rows = [cells(result, task) for result in best_first]
    header = _header(task)
    lines = [header, ["---"] * len(header), *rows]
    title = f"{task.name}: {task.primary_metric} over {len(best_first[0].measures)} seeds, best first"
    return f"{title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def draw_curves(best_first: Sequence[SolverResult], task: Compared, path: Path) -> Path:
    """Draw neg_elbo against steps (or epochs) and against seconds: median and range over seeds.

    Args:
        best_first: the results of the solvers, best first.
        task: the task.
        path: the image file.
    """
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    drawn = [result for result in best_first if result.curve.step]
    in_epochs = all(result.epochs_a_step for result in drawn)
    for result in drawn:
        look = {**look_of(result.solver).matplotlib, "label": result.solver}
        unit = (result.epochs_a_step or 1) if in_epochs else 1
        _draw_one(left, [step * unit for step in result.curve.step], result.curve.neg_elbo, look)
        _draw_one(right, result.curve.seconds, result.curve.neg_elbo, look)
    left.set(xlabel="epoch" if in_epochs else "step", ylabel="neg_elbo (upper bound, same estimator for all)")
    right.set(xlabel="seconds per seed")
    right.set_xscale("symlog", linthresh=0.1)
    if task.objective_is_kl:
        left.set(yscale="log", ylim=(1e-4, 30))
    else:
        left.set_ylim(*_y_limits(drawn))
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    seeds = len(best_first[0].measures)
    figure.suptitle(f"{task.name}: median and range over {seeds} seeds" if seeds > 1 else f"{task.name}: one seed")
    save_figure(figure, path, dpi=130)
    return path


def _y_limits(drawn: Sequence[SolverResult]) -> tuple[float | None, float | None]:
    """Limits of the y axis that show the last three quarters of the curves.

    Initial values are ignored because they may be orders of magnitude larger. Solvers all of whose seeds diverged are
    ignored too, unless there are no others.
    """
    ended = [result for result in drawn if None in result.diverged] or list(drawn)
    curves = [result.curve.neg_elbo for result in ended]
    ends = _finite([np.median(values[-1]) for values in curves])
    quarter = _finite([np.median(values[len(values) // 4]) for values in curves])
    if not ends.size:
        return None, None
    room = max(np.ptp(ends), 1e-2 * abs(ends.min()), 1e-3)
    return ends.min() - 0.1 * room, max(ends.max() + 0.7 * room, quarter.max(initial=-np.inf))


def _finite(values: Sequence[Any]) -> np.ndarray:
    return np.array([value for value in values if np.isfinite(value)])


def _draw_one(axes: Axes, x: Sequence[float | int], values: Sequence[Sequence[float]], look: dict[str, Any]) -> None:
    table = np.array(values)
    too_large = ~(np.abs(table) <= MAX_GROWTH * (np.abs(table[0]) + 1))
    table = np.where(too_large, np.nan, table)
    shown = ~np.isnan(table).all(axis=1)
    x_shown, table = np.array(x)[shown], table[shown]
    axes.plot(x_shown, np.nanmedian(table, axis=1), linewidth=1.6, **look)
    axes.fill_between(
        x_shown, np.nanmin(table, axis=1), np.nanmax(table, axis=1), color=look["color"], alpha=0.15, lw=0
    )
