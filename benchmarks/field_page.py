"""The page of the table of the field: a table per task with published figures beside ours, and one figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from civi.errors import OutputError
from civi.experiment.report.figure_file import save_figure
from civi.experiment.tasks import TASKS
from civi.files import write_text

mpl.use("Agg")
BEGIN, END = "<!-- field: begin -->", "<!-- field: end -->"
PUBLISHED: dict[str, Any] = json.loads(Path(__file__).with_name("field_published.json").read_text())
RELATIVE = "sliced_wasserstein / floor"
COLUMNS: dict[str, tuple[str, ...]] = {
    "toy": ("kl", "kl_forward", RELATIVE, "mode_share_min", "tail_ratio_99.9"),
    "regression": (RELATIVE, "neg_elbo", "sd_ratio_min", "mean_error_max"),
    "diffusion": (RELATIVE, "neg_elbo", "sd_ratio_min", "mean_error_max", "marginal_log_density"),
    "network": ("rmse", "nll", "coverage_50", "coverage_90", "calibration_error", "neg_elbo"),
}
SMALLEST = 1e-5
SPEED = (
    "CPU time per step with the settings `paper`, on one core, beside the wall time per iteration of the authors' "
    "codes with the same batch sizes on two cores of the same kind of machine (±20 %). The ratio is for their smaller "
    "value. For DIVI it is half of its 258 ms, which are for 10 regressions; ours has 5."
)
Result = dict[str, Any]


def values(result: Result, column: str) -> np.ndarray:
    """A measure of the seeds that did not diverge; empty if the task or the solver does not have it."""
    if "refused" in result:
        return np.zeros(0)
    pairs = zip(result["measures"], result["diverged"], strict=True)
    rows = [row for row, diverged in pairs if diverged is None]
    if column == RELATIVE:
        pair = ("sliced_wasserstein", "sliced_wasserstein_floor")
        found = [row[pair[0]] / row[pair[1]] for row in rows if None not in (row.get(pair[0]), row.get(pair[1]))]
    else:
        found = [row[column] for row in rows if row.get(column) is not None]
    return np.array(found, float)


def ordered(results: Sequence[Result], column: str) -> list[Result]:
    """Smallest mean of the column first; solvers without a value last, refused ones left out."""

    def key(result: Result) -> tuple[bool, float]:
        found = values(result, column)
        return not len(found), float(found.mean()) if len(found) else 0.0

    return sorted((result for result in results if "refused" not in result), key=key)


def table(task: str, results: Sequence[Result]) -> str:
    """The table of a task in Markdown, best first: mean over seeds, with the sd over seeds in brackets."""
    columns = [name for name in COLUMNS[TASKS[task].module] if any(len(values(one, name)) for one in results)]
    lines = [["solver", "settings", *columns, "steps", "CPU s", "ms per step", "diverged"]]
    lines.append(["---"] * len(lines[0]))
    for one in ordered(results, columns[0]) if columns else ():
        diverged = sum(step is not None for step in one["diverged"])
        ended = f"{diverged} of {len(one['diverged'])}" if diverged else "-"
        cells = [_cell(values(one, name)) for name in columns]
        times = [f"{one['cpu_seconds']:.1f}", _milliseconds(one)] if one["cpu_seconds"] else ["-", "-"]
        lines.append([one["solver"], one["kind"], *cells, f"{one['steps']:,}", *times, ended])
    return _markdown(lines)


def _markdown(lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _milliseconds(result: Result) -> str:
    """CPU time per step; a dash if a seed was stopped early, because its steps are not known."""
    stopped = any(step is not None for step in result["diverged"])
    return "-" if stopped or not result["cpu_seconds"] else f"{1000 * result['cpu_seconds'] / result['steps']:.2g}"


def lead(results: Sequence[Result]) -> str:
    """A table with one row per task: neg_elbo of civi and of the best other solver with equal seconds.

    On the toys neg_elbo is KL(q || p). Two solvers are equal if their means differ by at most two standard errors over
    seeds.
    """
    lines = [["task", "civi", "best other solver", "its neg_elbo", "difference", "civi"], ["---"] * 6]
    for task, group in groupby(results, key=lambda one: one["task"]):
        found = {one["solver"]: values(one, "neg_elbo") for one in group if one["kind"] == "equal"}
        found = {solver: found for solver, found in found.items() if len(found) > 1}
        others = {solver: value.mean() for solver, value in found.items() if solver != "civi"}
        if "civi" not in found or not others:
            continue
        best = min(others, key=lambda solver: others[solver])
        pair = found["civi"], found[best]
        difference = float(pair[1].mean() - pair[0].mean())
        error = np.sqrt(sum(value.var(ddof=1) / len(value) for value in pair))
        verdict = "leads" if difference > 2 * error else "ties" if difference > -2 * error else "behind"
        digits = 6 if abs(pair[0].mean()) > 100 else 4
        ours, theirs = (_cell(value, digits) for value in pair)
        lines.append([task, ours, best, theirs, f"{difference:.2g} ± {error:.1g}", verdict])
    return _markdown(lines)


def speed(results: Sequence[Result]) -> str:
    """CPU milliseconds per step with the published settings, beside the authors' codes."""
    lines = [["solver", "task", "civi", "authors' code", "ratio"], ["---"] * 5]
    for one in results:
        theirs = PUBLISHED["milliseconds"].get(one["solver"], {}).get(one["task"])
        if "refused" in one or one["kind"] != "paper" or theirs is None or _milliseconds(one) == "-":
            continue
        ours = 1000 * one["cpu_seconds"] / one["steps"]
        text = " to ".join(f"{bound:g}" for bound in theirs)
        lines.append([one["solver"], one["task"], f"{ours:.2g}", text, f"{theirs[0] / ours:.1f}"])
    return _markdown(lines) if len(lines) > 2 else ""


def _cell(found: np.ndarray, digits: int = 4) -> str:
    if not len(found):
        return "-"
    spread = f" ({found.std(ddof=1):.2g})" if len(found) > 1 else ""
    return f"{found.mean():.{digits}g}{spread}"


def published(task: str) -> str:
    """The published figures of a task as a Markdown table, with their sources; empty if there are none."""
    rows = PUBLISHED["figures"].get(task, [])
    if not rows:
        return ""
    lines = ["| published | figure | value | source |", "|---|---|---|---|"]
    lines += [f"| {row['method']} | {row['figure']} | {row['value']} | {row['source']} |" for row in rows]
    return "\n".join(lines)


def write_page(results: Sequence[Result], page: Path, figure: str, seconds: float) -> None:
    """Replace what is between the markers of the page.

    Args:
        results: the results of all cells so far.
        page: the Markdown file.
        figure: path of the figure, relative to the page.
        seconds: CPU seconds of training per seed.
    """
    text = page.read_text() if page.exists() else f"# The table of the field\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        raise OutputError(f"{page} lacks the lines {BEGIN} and {END}: add them where the tables belong")
    parts = [
        f"The settings `equal` train for {seconds:g} CPU seconds per seed on one core. Each entry is the mean over the "
        "seeds that did not diverge, with their standard deviation in brackets.",
        "### civi and the best other solver",
        lead(results),
        f"![Quality of every solver on every task]({figure})",
    ]
    if times := speed(results):
        parts += ["### Milliseconds per step", SPEED, times]
    for task, group in groupby(results, key=lambda one: one["task"]):
        cells = list(group)
        refused = "; ".join(
            f"{one['solver']} ({one['refused']})" for one in cells if "refused" in one and one["kind"] == "equal"
        )
        summary = TASKS[task].summary
        parts += [f"### {task}", f"{summary[0].upper()}{summary[1:]}.", table(task, cells), published(task)]
        parts += [PUBLISHED["remarks"].get(task, ""), f"Left out: {refused}." if refused else ""]
    body = "\n\n".join(part for part in parts if part)
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_text(page, f"{before}{BEGIN}\n\n{body}\n\n{END}{after}")


def draw_field(results: Sequence[Result], path: Path) -> None:
    """Draw one panel per task: the first measure of every solver, with the range over seeds.

    Estimates of a KL divergence may be negative. Values below SMALLEST are drawn there.
    """
    by_task = {task: list(group) for task, group in groupby(results, key=lambda one: one["task"])}
    wide = min(4, len(by_task))
    tall = -(-len(by_task) // wide)
    figure = Figure(figsize=(4.2 * wide, 3.6 * tall), layout="constrained")
    panels = figure.subplots(tall, wide, squeeze=False).ravel()
    for axes, (task, cells) in zip(panels, by_task.items(), strict=False):
        _draw_task(axes, task, cells)
    for axes in panels[len(by_task) :]:
        axes.set_visible(False)
    save_figure(figure, path, dpi=110)


def _draw_task(axes: Axes, task: str, cells: list[Result]) -> None:
    column = COLUMNS[TASKS[task].module][0]
    shown = [one for one in ordered(cells, column) if len(values(one, column))][::-1]
    for place, one in enumerate(shown):
        colour = "tab:blue" if one["kind"] == "equal" else "tab:orange"
        found = np.maximum(values(one, column), SMALLEST)
        axes.plot([found.min(), found.max()], [place, place], color=colour, linewidth=3, alpha=0.4)
        axes.plot(found.mean(), place, "o", color=colour, markersize=4)
    labels = [one["solver"] + (" (paper)" if one["kind"] == "paper" else "") for one in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=7)
    axes.set(title=task, xlabel=column, xscale="log")
    axes.grid(axis="x", alpha=0.3)
