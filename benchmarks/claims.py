"""Measure two theoretical claims of the CI-VI paper: the error of the gradient estimate and the oracle complexity.

python benchmarks/claims.py --out docs/figures          prints the tables, writes the figures (--quick: a small run)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from rich.console import Console
from rich.progress import track
from rich.table import Table

from civi.solver import CompositionalSolver
from civi.tracker import NoTracker
from civi.update import SampleSizes
from claims_measure import Error, Measured, Size, arms, measure

Results = dict[str, Measured]
Statistic = Callable[[np.ndarray], float]
Criterion = Callable[[np.ndarray], np.ndarray]
DELTAS = np.geomspace(0.5, 0.005, 9)
LOOKS = {
    "civi, theorem schedule": ("o", "tab:blue"),
    "  untracked at these states": ("s", "tab:cyan"),
    "civi, constant K": ("^", "tab:purple"),
    "nmc, growing K": ("v", "tab:red"),
    "nmc, constant K": ("<", "tab:orange"),
    "scgd, constant K": (">", "tab:green"),
    "civi, theorem, S trained": ("x", "tab:gray"),
    "nmc, growing K, S trained": ("+", "tab:pink"),
}


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """Slope of log y against log x; nan with fewer than four points, or if a value is not positive."""
    x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(y) >= 4 and np.all(y > 0) else np.nan


def bootstrap(statistic: Statistic, values_S: np.ndarray, draws: int = 300) -> tuple[float, float]:
    """The statistic of the mean over seeds, and its standard error from resampled seeds."""
    value = statistic(values_S.mean(axis=0))
    if np.isnan(value):
        return value, value
    seeds = np.random.default_rng(0).integers(len(values_S), size=(draws, len(values_S)))
    again = [statistic(values_S[index].mean(axis=0)) for index in seeds]
    return value, float(np.nanstd(again, ddof=1))


def plus_minus(pair: tuple[float, float]) -> str:
    """Format a value and its standard error."""
    return "-" if np.isnan(pair[0]) else f"{pair[0]:.2f} ± {pair[1]:.2f}"


def diverged(measured: Measured) -> np.ndarray:
    """Whether each seed ends with a larger gradient than it started with."""
    return ~(measured.norm_ST[:, -1] < measured.norm_ST[:, 0])


def estimators(results: Results) -> dict[str, Error]:
    """Rows of the first table: each run's own estimate, and the untracked estimate at the states of the first run."""
    rows = {name: measured.own for name, measured in results.items()}
    first, *others = rows.items()
    return dict([first, ("  untracked at these states", results[first[0]].untracked), *others])


def bias_table(results: Results, times: np.ndarray) -> Table:
    """Mean squared error and squared bias given the state: slopes over t, and first and last values."""
    table = Table(title="Error of the gradient estimate (paper: slope -0.80)", title_justify="left")
    first, last = times[0], times[-1]
    for column in ("estimate", "MSE slope", "bias² slope", f"MSE, t={first}", f"MSE, t={last}", f"bias², t={last}"):
        table.add_column(column)
    table.add_column("systematic share")
    for name, error in estimators(results).items():
        if name in results and (count := diverged(results[name]).sum()):
            table.add_row(name, f"{count} of {len(error.squared)} diverge")
            continue
        fits = [plus_minus(bootstrap(lambda y: slope(times, y), e)) for e in (error.squared, error.bias_squared)]
        ends = [error.squared[:, 0], error.squared[:, -1], error.bias_squared[:, -1]]
        values = [f"{end.mean():.1e} ± {end.std(ddof=1) / len(end) ** 0.5:.0e}" for end in ends]
        table.add_row(name, *fits, *values, "-" if fits[1] == "-" else f"{systematic_share(error):.2f}")
    return table


def systematic_share(error: Error) -> float:
    """|E bias|^2 / E|bias|^2 over seeds, each summed over the measured steps: the part that does not average out."""
    noise = error.bias.var(axis=0, ddof=1).sum(axis=-1) / len(error.bias)
    return float(np.sum((error.bias.mean(axis=0) ** 2).sum(axis=-1) - noise) / error.bias_squared.mean(axis=0).sum())


def oracle_calls(solver: CompositionalSolver) -> np.ndarray:
    """Oracle calls up to step t: K1 of Oracle_f, K2 of Oracle_g at theta_t and, with a tracker, K3 at z_{t+1}."""
    t = np.arange(1, solver.steps + 1.0)
    kinds = ("outer", "inner") if isinstance(solver.tracker, NoTracker) else ("outer", "inner", "auxiliary")
    sizes = SampleSizes(solver.samples, solver.steps)
    return np.cumsum(sum(np.asarray(sizes.at(kind, jnp.asarray(t))) for kind in kinds))


def uniform_iterate(norm_T: np.ndarray) -> np.ndarray:
    """E|grad L|^2 of an iterate drawn uniformly from theta_1 .. theta_T: the theorem's output."""
    return np.cumsum(norm_T) / np.arange(1, len(norm_T) + 1)


CRITERIA: dict[str, Criterion] = {"uniform iterate": uniform_iterate, "first time": lambda norm_T: norm_T}


def calls_until(norm_T: np.ndarray, calls_T: np.ndarray, criterion: str) -> np.ndarray:
    """Oracle calls until the criterion is at most delta, for each delta; nan if it is not reached."""
    reached = CRITERIA[criterion](norm_T)[None, :] <= DELTAS[:, None]
    return np.where(reached.any(axis=1), calls_T[reached.argmax(axis=1)], np.nan)


def exponent(norm_T: np.ndarray, calls_T: np.ndarray, criterion: str) -> float:
    """Slope of log calls against log delta."""
    return slope(DELTAS, calls_until(norm_T, calls_T, criterion))


def complexity_table(results: Results, solvers: dict[str, CompositionalSolver], criterion: str) -> Table:
    """Oracle calls for each delta, their exponent, the rate of the criterion in t from step 9, and its last value."""
    title = f"Oracle calls until E|grad L|² <= delta, {criterion} (paper: exponent -2.25, rate -0.80)"
    table = Table(title=title, title_justify="left")
    for column in ("solver", *(f"{delta:.2g}" for delta in DELTAS), "exponent", "rate in t", "last"):
        table.add_column(column)
    for name, measured in results.items():
        calls_T = oracle_calls(solvers[name])
        calls = calls_until(measured.norm_ST.mean(axis=0), calls_T, criterion)
        t = np.arange(1, len(calls_T) + 1)[8:]
        last = CRITERIA[criterion](measured.norm_ST.mean(axis=0))[-1]
        fit = plus_minus(bootstrap(partial(exponent, calls_T=calls_T, criterion=criterion), measured.norm_ST))
        rate = plus_minus(bootstrap(partial(rate_in_t, t=t, criterion=criterion), measured.norm_ST))
        table.add_row(name, *("-" if np.isnan(c) else f"{c:.1e}" for c in calls), fit, rate, f"{last:.1e}")
    return table


def rate_in_t(norm_T: np.ndarray, t: np.ndarray, criterion: str) -> float:
    """Slope of the log criterion against log t from step 9 on."""
    return log_spaced_slope(t, CRITERIA[criterion](norm_T)[8:])


def log_spaced_slope(t: np.ndarray, values: np.ndarray) -> float:
    """Slope over log-spaced steps, so that every decade has the same weight."""
    index = np.unique(np.geomspace(1, len(t), 60).astype(int)) - 1
    return slope(t[index], values[index])


def draw(axis: plt.Axes, x: np.ndarray, y: np.ndarray, name: str) -> None:
    """Draw the positive points and the fitted line."""
    marker, colour = LOOKS[name]
    axis.loglog(x, np.where(y > 0, y, np.nan), marker, color=colour, ms=5, label=name)
    if not np.isnan(fitted := slope(x, y)):
        x, y = x[~np.isnan(y)], y[~np.isnan(y)]
        middle = np.exp(np.mean(np.log(y)) - fitted * np.mean(np.log(x)))
        axis.loglog(x, middle * x**fitted, color=colour, lw=1.2)


def bias_figure(results: Results, times: np.ndarray, path: Path) -> None:
    """Draw mean squared error and squared bias against t, for the runs that did not diverge."""
    stable = {name: measured for name, measured in results.items() if not diverged(measured).any()}
    figure, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained", sharey=True)
    panels = {"squared": "mean squared error", "bias_squared": "squared bias given the state"}
    for axis, (field, title) in zip(axes, panels.items(), strict=True):
        for name, error in estimators(stable).items():
            draw(axis, times, getattr(error, field).mean(axis=0), name)
        level = 2 * np.max([getattr(error, field).mean(axis=0)[0] for error in estimators(stable).values()])
        axis.loglog(times, level * (times / times[0]) ** -0.8, "k--", lw=1, label="slope -4/5 (paper)")
        axis.set(title=title, xlabel="step t", ylim=(2e-5, None))
    axes[0].set_ylabel("error of the gradient estimate")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(path, dpi=130)


def complexity_figure(results: Results, solvers: dict[str, CompositionalSolver], path: Path) -> None:
    """Draw oracle calls against delta, for both criteria."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.6), layout="constrained", sharey=True)
    for axis, criterion in zip(axes, CRITERIA, strict=True):
        for name, measured in results.items():
            calls = calls_until(measured.norm_ST.mean(axis=0), oracle_calls(solvers[name]), criterion)
            draw(axis, DELTAS, calls, name)
        theorem = next(iter(results))
        lowest = calls_until(results[theorem].norm_ST.mean(axis=0), oracle_calls(solvers[theorem]), criterion)
        axis.loglog(DELTAS, lowest[0] * (DELTAS / DELTAS[0]) ** -2.25, "k--", lw=1, label="slope -9/4 (paper)")
        axis.set(title=criterion, xlabel="delta", ylim=(1e2, 3e6))
        axis.invert_xaxis()
    axes[0].set_ylabel("oracle calls until E|grad L|² <= delta")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run every solver, print the tables, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"), help="folder for the figures")
    parser.add_argument("--quick", action="store_true", help="fewer steps and seeds")
    parser.add_argument("--steps", type=int, help="number of steps; by default 800, or 200 with --quick")
    options = parser.parse_args()
    size = Size(steps=options.steps or (200 if options.quick else 800), seeds=4 if options.quick else 12)
    mpl.use("Agg")
    console = Console(width=170)
    solvers = arms(size)
    results = {name: measure(solver, size) for name, solver in track(solvers.items(), "solvers", console=console)}
    console.print(bias_table(results, size.times))
    for criterion in CRITERIA:
        console.print(complexity_table(results, solvers, criterion))
    options.out.mkdir(parents=True, exist_ok=True)
    bias_figure(results, size.times, options.out / "claims-bias.png")
    complexity_figure(results, solvers, options.out / "claims-complexity.png")


if __name__ == "__main__":
    main()
