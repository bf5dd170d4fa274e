"""The paper's figure of a toy: filled contours of the target, contours of q, and draws of q; one panel per solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from civi.experiment.report import DrawsBySolver
from civi.experiment.report.figure_file import save_figure
from civi.inference.report.content import Plane
from civi.inference.report.looks import look_of
from civi.problem.target import SampledTarget

matplotlib.use("Agg")
GRID, COLUMNS, DOTS = 120, 4, 1500
MASSES = (0.95, 0.8, 0.6, 0.4, 0.2)
LogQ = Callable[[Array], Array]


def densities(target: SampledTarget, log_q: LogQ | None) -> Plane:
    """The densities of the target and of q on a grid that holds nearly all mass of the target.

    Args:
        target: the target.
        log_q: the log density of q; None if it has none.
    """
    exact = np.asarray(target.sample(jax.random.key(0), 4000))
    low, high = np.quantile(exact, 0.002, axis=0), np.quantile(exact, 0.998, axis=0)
    low, high = low - 0.15 * (high - low), high + 0.15 * (high - low)
    x, y = np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID))
    points = jnp.asarray(np.stack([x.ravel(), y.ravel()], axis=1))
    p = np.asarray(jnp.exp(jax.jit(jax.vmap(target.log_prob))(points))).reshape(x.shape)
    q = None if log_q is None else np.exp(np.asarray(log_q(points))).reshape(x.shape)
    return Plane((float(low[0]), float(high[0])), (float(low[1]), float(high[1])), p, q)


def draw_toy(
    target: SampledTarget, log_q: LogQ | None, draws: np.ndarray, path: Path, name: str, solver: str = "civi"
) -> Path:
    """Draw the density and the draws of q over the target.

    Args:
        target: the target.
        log_q: the log density of q; None: no contours of q.
        draws: draws of q.
        path: the image file.
        name: name of the task, for the title.
        solver: name of the solver, which decides about the colour.
    """
    plane = densities(target, log_q)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes in (left, right):
        _fill(axes, plane)
        axes.set(xlabel="$z_1$", ylabel="$z_2$")
    colour = look_of(solver).colour
    if plane.q is not None:
        x, y = np.linspace(*plane.x, GRID), np.linspace(*plane.y, GRID)
        left.contour(x, y, plane.q, levels=mass_levels(plane.q), colors=colour, linewidths=1.2)
    left.set_title("target (filled)" + (" and q (lines)" if plane.q is not None else ""))
    right.plot(*draws[:DOTS].T, ".", color=colour, markersize=2.5, alpha=0.6)
    right.set_title("draws on the target")
    figure.suptitle(f"{name}: {_regions()}")
    save_figure(figure, path, dpi=130)
    return path


def draw_solvers(target: SampledTarget, draws: DrawsBySolver, path: Path, name: str) -> Path:
    """Draw the target and the draws of each solver in a panel of its own; a solver that diverged has no draws.

    Args:
        target: the target.
        draws: draws (draw, coordinate) of each solver.
        path: the image file.
        name: name of the task, for the title.
    """
    plane, columns = densities(target, None), min(COLUMNS, len(draws))
    rows = -(-len(draws) // columns)
    figure = Figure(figsize=(3.0 * columns, 2.7 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, (solver, values) in zip(panels, draws.items(), strict=False):
        _fill(axes, plane)
        finite = values[np.isfinite(values).all(axis=1)]
        axes.plot(*finite[:DOTS].T, ".", color=look_of(solver).colour, markersize=1.5, alpha=0.5)
        axes.set_title(solver if len(finite) else f"{solver}: diverged", fontsize=10)
    for axes in panels[len(draws) :]:
        axes.set_axis_off()
    figure.suptitle(f"{name}: draws of each solver on the target ({_regions()})", fontsize=10)
    save_figure(figure, path, dpi=110)
    return path


def _fill(axes: Axes, plane: Plane) -> None:
    """Filled contours of the target."""
    x, y = np.linspace(*plane.x, GRID), np.linspace(*plane.y, GRID)
    axes.contourf(x, y, plane.p, levels=[*mass_levels(plane.p), plane.p.max() * 1.001], cmap="Greys")
    axes.set(xlim=plane.x, ylim=plane.y)


def _regions() -> str:
    return f"regions that contain {', '.join(f'{mass:.0%}' for mass in MASSES)} of the mass"


def mass_levels(density: np.ndarray, masses: Sequence[float] = MASSES) -> list[float]:
    """Density levels, increasing, whose superlevel sets contain these fractions of the mass on the grid."""
    finite = np.where(np.isfinite(density), density, 0.0)
    falling = np.sort(finite.ravel())[::-1]
    held = np.cumsum(falling) / max(falling.sum(), np.finfo(float).tiny)
    levels = falling[np.minimum(np.searchsorted(held, masses), falling.size - 1)]
    return (levels + np.arange(len(masses)) * 1e-6 * max(levels.max(), 1e-12)).tolist()
