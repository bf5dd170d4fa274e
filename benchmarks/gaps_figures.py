"""Figures of autoencoders with z in R^2: the latent plane, and exact posteriors of single images beside fitted ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.figure import Figure

import gaps_measure as measure
from civi.estimate.log_ratio import log_density
from civi.experiment.report.figure_file import save_figure

matplotlib.use("Agg")
SIDE, TILES, POINTS, INNER, DPI = 28, 21, 120, 20_000, 80
HALF_WIDTH = 6.0
ENCLOSED = (0.95, 0.5)
FILLED, LINES = ("#c6dbef", "#6baed6"), "#d55e00"


def draw_plane(posterior: Any, x_N: jax.Array, path: Path) -> None:
    """Decoded images on a grid of the latent plane, and one posterior draw for each of the data x_N."""
    z_N = np.asarray(posterior.given(x_N).sample(jax.random.key(0), len(x_N)))
    span = float(np.quantile(abs(z_N), 0.995))
    at = np.linspace(-span, span, TILES)
    grid = jnp.stack(jnp.meshgrid(jnp.asarray(at), jnp.asarray(at)[::-1]), -1)
    tiles = np.asarray(posterior.decoder.mean(grid)).reshape(TILES, TILES, SIDE, SIDE)
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    decoded, drawn = figure.subplots(1, 2)
    whole = np.moveaxis(tiles, 2, 1).reshape(TILES * SIDE, TILES * SIDE)
    decoded.imshow(whole, cmap="gray_r", extent=(-span, span, -span, span), interpolation="nearest")
    decoded.set(title="decoded points of the plane", xlabel="z[0]", ylabel="z[1]")
    drawn.scatter(*z_N.T, s=4, color="#0072b2", linewidths=0)
    drawn.set(title=f"one draw of q(z | x) for {len(x_N)} test images", xlabel="z[0]", aspect="equal")
    drawn.set(xlim=(-span, span), ylim=(-span, span))
    save_figure(figure, path, DPI)


def draw_posteriors(
    posterior: Any, x_N: jax.Array, gap_N: np.ndarray, fits: Mapping[str, measure.Fitted], path: Path
) -> None:
    """For four images, the exact posterior (filled), with a row for the encoder and one for every fitted q (lines).

    The images are at the median, the upper quartile, the highest decile and the maximum of the gaps `gap_N`.
    Contours enclose 50 and 95 percent.
    """
    order = np.argsort(gap_N)
    chosen = [int(order[round(share * (len(order) - 1))]) for share in (0.5, 0.75, 0.9, 1.0)]
    rows: list[str] = ["encoder", *fits]
    figure = Figure(figsize=(2.4 * len(chosen), 2.3 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(chosen), squeeze=False)
    for column, n in enumerate(chosen):
        log_p_M, z_M, sides = _exact(posterior, x_N[n])
        for row, name in enumerate(rows):
            ax = axes[row, column]
            fitted = of_datum(fits[name], n) if name in fits else None
            log_q_M = _log_q(posterior.given(x_N[n][None]), None, z_M) if fitted is None else _log_q(*fitted[:2], z_M)
            shape = (POINTS, POINTS)
            ax.contourf(*sides, log_p_M.reshape(shape), levels=_levels(log_p_M, top=True), colors=FILLED)
            ax.contour(
                *sides, log_q_M.reshape(shape), levels=_levels(log_q_M), linewidths=1, colors=LINES, linestyles="solid"
            )
            ax.tick_params(labelsize=6)
            if not row:
                ax.set_title(f"gap of the diagonal Gaussian {gap_N[n]:.1f}", fontsize=8)
            if not column:
                ax.set_ylabel(name, fontsize=8)
    save_figure(figure, path, DPI)


def of_datum(fitted: measure.Fitted, n: int) -> measure.Fitted:
    """The fit of one datum."""
    return jax.tree.map(lambda leaf: leaf[n] if eqx.is_array(leaf) else leaf, fitted)


def _exact(posterior: Any, x: jax.Array) -> tuple[np.ndarray, jax.Array, tuple[np.ndarray, np.ndarray]]:
    """log p(x, z) on a grid around the region that holds 0.999 of the posterior, its points and its sides."""
    ends = [(-HALF_WIDTH, HALF_WIDTH)] * 2
    for _ in range(3):
        sides = np.linspace(*ends[0], POINTS), np.linspace(*ends[1], POINTS)
        z_M = jnp.stack(jnp.meshgrid(*(jnp.asarray(side) for side in sides)), -1).reshape(-1, 2)
        log_p_M = np.asarray(measure.log_joint_table(posterior.decoder, x[None], z_M)[0])
        inside = np.asarray(z_M)[log_p_M >= _level(log_p_M, 0.999)]
        margin = 0.15 * np.ptp(inside, axis=0) + 2 * np.array([np.diff(side)[0] for side in sides])
        ends = list(zip(inside.min(0) - margin, inside.max(0) + margin, strict=True))
    return log_p_M, z_M, sides


def _log_q(family: Any, frame: measure.Frame | None, z_M: jax.Array) -> np.ndarray:
    """log q(z) at the points of a grid, up to a constant."""
    w_M = z_M if frame is None else jnp.linalg.solve(frame.factor, (z_M - frame.location).T).T
    return np.asarray(eqx.filter_jit(log_density)(family, w_M, jax.random.key(0), INNER))


def _level(log_values: np.ndarray, mass: float) -> float:
    """The log density above which this share of the mass lies."""
    ordered = np.sort(log_values)[::-1]
    shares = np.cumsum(np.exp(ordered - ordered[0]))
    return float(ordered[np.searchsorted(shares, mass * shares[-1])])


def _levels(log_values: np.ndarray, top: bool = False) -> list[float]:
    """Levels of ENCLOSED, and above them the maximum if asked for."""
    found = [_level(log_values, mass) for mass in ENCLOSED]
    return [*found, float(log_values.max()) + 1] if top else found
