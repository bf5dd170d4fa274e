"""The learning curves of a run: the objective and the weights k of the tracker."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from civi.experiment.report.figure_file import save_figure

matplotlib.use("Agg")
ROUNDING = 1e-6


def draw_history(history: dict[str, np.ndarray], path: Path) -> Path:
    """Draw neg_elbo and, if there is a tracker, mean and sd of the weights k, which are near 1 for a good tracker.

    Args:
        history: the columns of history.csv.
        path: the image file.
    """
    mean, sd = history["weight_mean"], history["weight_sd"]
    panels = 2 if np.nanmax(sd, initial=0) > ROUNDING else 1
    figure = Figure(figsize=(1 + 4.5 * panels, 3.6), layout="constrained")
    left, *others = figure.subplots(1, panels, sharex=True, squeeze=False)[0]
    step, value = history["step"], history["neg_elbo"]
    left.plot(step, value, color="#9ecae1", linewidth=0.6, label="each step")
    window = max(1, len(step) // 50)
    smooth = np.convolve(value, np.ones(window) / window, mode="valid")
    left.plot(step[window - 1 :], smooth, color="#08519c", linewidth=1.5, label=f"mean of {window} steps")
    finite = value[np.isfinite(value)]
    if finite.size:
        low, high = np.quantile(finite, [0.0, 0.98])
        room = max(high - low, 1e-3 * abs(high), 1e-6)
        left.set_ylim(low - 0.05 * room, high + 0.1 * room)
    left.set(xlabel="step", ylabel="neg_elbo")
    left.legend()
    for right in others:
        right.plot(step, mean, color="#08519c", linewidth=0.8, label="mean of k")
        right.plot(step, sd, color="#fd8d3c", linewidth=0.8, label="sd of k")
        right.set(xlabel="step", ylabel="weights k")
        right.legend()
    save_figure(figure, path, dpi=130)
    return path
