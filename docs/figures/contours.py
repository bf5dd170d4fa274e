"""Figures of the executed pages: contours of a log density in the plane, with draws of its approximations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np


def contours(log_density: Callable[..., Any], draws: Mapping[str, np.ndarray], span: float = 4.0) -> None:
    """Draw one panel for each set of draws, over the contours of the target.

    Args:
        log_density: of a vector of two elements.
        draws: arrays of shape (count, 2), by the title of their panel.
        span: half the width of the panels.
    """
    at = np.linspace(-span, span, 160)
    grid = jnp.stack(jnp.meshgrid(at, at), axis=-1)
    values = np.asarray(jax.vmap(jax.vmap(log_density))(grid))
    levels = values.max() - np.array([8.0, 4.5, 2.0, 0.5])
    _, axes = plt.subplots(1, len(draws), figsize=(3.4 * len(draws), 3.3), squeeze=False, layout="constrained")
    for ax, (title, points) in zip(axes[0], draws.items(), strict=True):
        ax.contourf(at, at, values, levels=[*levels, values.max()], cmap="Blues", alpha=0.7)
        ax.scatter(*np.asarray(points)[:1000].T, s=3, color="#d55e00", linewidths=0)
        ax.set(title=title, xlabel="z[0]", ylabel="z[1]", xlim=(-span, span), ylim=(-span, span))
    plt.show()
