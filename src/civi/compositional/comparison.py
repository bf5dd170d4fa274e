"""All methods on the problems with known solutions, at an equal number of oracle calls: a table and a figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from civi.compositional.methods import asc_pg, cadam, civi, nmc, scgd
from civi.compositional.minimise import Result, minimise
from civi.compositional.problems import linear_design, portfolio
from civi.estimate import Sketch
from civi.problem.oracles import Oracles
from civi.solver import CompositionalSolver
from civi.update import Samples

matplotlib.use("Agg")


class Entry(NamedTuple):
    """One row of a table: a method and a number of steps that takes about 96,000 oracle calls."""

    name: str
    method: CompositionalSolver
    steps: int


class Benchmark(NamedTuple):
    """A problem, the starting point theta_1, and `gap`, the distance of a theta from the solution."""

    name: str
    problem: Oracles
    theta_1: Array
    gap: Callable[[Any], Array]


def entries(sketch: Sketch) -> list[Entry]:
    """All methods with their default constants. civi takes fewer steps, because its batches grow."""
    growing = Samples(1, 1, growth=0.8)
    return [
        Entry("scgd", scgd(), 2000),
        Entry("asc-pg", asc_pg(), 2000),
        Entry("cadam", cadam(), 2000),
        Entry("civi", civi(samples=growing), 440),
        Entry(f"civi, sketch of {sketch.size}", civi(samples=growing, sketch=sketch), 440),
        Entry("nmc, K2 = 24", nmc(samples=Samples(24, 24)), 2000),
        Entry("nmc, K2 = 1", nmc(samples=Samples(47, 1)), 2000),
    ]


def benchmarks() -> list[tuple[Benchmark, list[Entry]]]:
    """The portfolio (y has n = 5 entries) and the design (n = 64) with two noise levels.

    With less noise the densities of the design have sharper peaks.
    """
    assets = portfolio()
    trade = Benchmark("portfolio", assets.problem, jnp.zeros_like(assets.mean), assets.error)
    start = jnp.pi * 2 / 3 + jnp.array([-0.2, 0.2])
    rows = [(trade, entries(Sketch("dense", 3)))]
    for noise in (1.0, 0.3):
        design = linear_design(jax.random.key(5), noise=noise)
        benchmark = Benchmark(f"design, noise {noise:g}", design.problem, start, design.gap)
        rows.append((benchmark, entries(Sketch("sparse", 16))))
    return rows


def run(benchmark: Benchmark, entry: Entry, seeds: int) -> Result:
    """Run all seeds of one entry as one program. `measured` of the result is the gap after every step."""
    keys = jax.random.split(jax.random.key(0), seeds)
    return jax.vmap(
        lambda key: minimise(benchmark.problem, benchmark.theta_1, key, entry.method, entry.steps, benchmark.gap)
    )(keys)


def table(benchmark: Benchmark, lines: list[tuple[Entry, Result]]) -> str:
    """The results of one benchmark as a Markdown table.

    It has the mean and standard deviation over the seeds of the gap of the last theta, and the gap of the mean theta.
    The latter is left out for angles, whose mean is not meaningful.
    """
    rows = ["| method | steps | oracle calls | gap: mean (sd) over seeds | gap of the mean theta | steps undone |"]
    rows.append("|---|---|---|---|---|---|")
    for entry, result in lines:
        last = np.asarray(result.measured)[:, -1]
        centre = f"{float(benchmark.gap(result.theta.mean(axis=0))):.1%}" if benchmark.name == "portfolio" else "-"
        calls, undone = int(result.history.oracle_calls[0, -1]), int(result.skipped.sum())
        cells = [entry.name, entry.steps, f"{calls:,}", f"{last.mean():.2%} ({last.std(ddof=1):.2%})", centre, undone]
        rows.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(rows)


def draw(results: list[tuple[Benchmark, list[tuple[Entry, Result]]]], path: Path) -> Path:
    """Plot the gap against the oracle calls: the median over the seeds, with a band from the 10 % to the 90 % quantile.

    Returns:
        The path of the figure.
    """
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    axes = figure.subplots(1, len(results))
    for ax, (benchmark, lines) in zip(axes, results, strict=True):
        _panel(ax, lines)
        measure = "|x - x*| / |x*|" if benchmark.name == "portfolio" else "share of the best information gain missed"
        ax.set(title=benchmark.name, ylabel=f"gap: {measure}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=130)
    return path


def _panel(ax: Axes, lines: list[tuple[Entry, Result]]) -> None:
    for index, (entry, result) in enumerate(lines):
        calls = np.asarray(result.history.oracle_calls)[0]
        shown = np.unique(np.geomspace(1, entry.steps, 150).astype(int)) - 1
        low, middle, high = np.quantile(np.asarray(result.measured)[:, shown], [0.1, 0.5, 0.9], axis=0)
        label = entry.name.split(" of ")[0]
        ax.plot(calls[shown], middle, color=f"C{index}", linewidth=1.5, label=label)
        ax.fill_between(calls[shown], low, high, color=f"C{index}", alpha=0.15, linewidth=0)
    ax.set(xscale="log", yscale="log", xlabel="oracle calls (f and g)")
