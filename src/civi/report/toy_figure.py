"""The paper's figure for a toy: filled contours of the target, contours of q, draws of q."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Array
from matplotlib.figure import Figure

from civi.estimate import log_density
from civi.solver import Model
from civi.target import SampledTarget

matplotlib.use("Agg")
GRID, INNER = 120, 10_000
MASSES = (0.95, 0.8, 0.6, 0.4, 0.2)


def draw_toy(model: Model, draws: np.ndarray, path: Path, name: str) -> Path:
    """Two panels over the region of highest target density."""
    target = cast(SampledTarget, model.target)
    exact = np.asarray(target.sample(jax.random.key(0), 4000))
    low, high = np.quantile(exact, 0.001, axis=0), np.quantile(exact, 0.999, axis=0)
    low, high = low - 0.15 * (high - low), high + 0.15 * (high - low)
    x, y = np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID))
    points = jnp.asarray(np.stack([x.ravel(), y.ravel()], axis=1))
    p, q = (np.asarray(values).reshape(x.shape) for values in _densities(model, points))

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes in (left, right):
        axes.contourf(x, y, p, levels=[*_levels(p), p.max() * 1.001], cmap="Blues", extend="neither")
        axes.set(xlabel="$z_1$", ylabel="$z_2$", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    left.contour(x, y, q, levels=_levels(q), colors="#b2182b", linewidths=1.2)
    left.set_title("contours: target (filled) and q (lines)")
    right.plot(*draws[:1500].T, ".", color="#b2182b", markersize=2.5, alpha=0.6)
    right.set_title("draws of q on the target")
    shares = ", ".join(f"{mass:.0%}" for mass in MASSES)
    figure.suptitle(f"{name}: regions that hold {shares} of the mass")
    figure.savefig(path, dpi=130)
    return path


@eqx.filter_jit
def _densities(model: Model, points: Array) -> tuple[Array, Array]:
    log_q = log_density(model.family, points, jax.random.key(1), INNER, block=500)
    return jnp.exp(jax.vmap(model.target.log_prob)(points)), jnp.exp(log_q)


def _levels(density: np.ndarray) -> list[float]:
    """Density levels whose regions hold the given masses, increasing."""
    falling = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    levels = [float(falling[np.searchsorted(held, mass)]) for mass in MASSES]
    return [level * (1 + 1e-6 * i) for i, level in enumerate(levels)]
