"""The figure of a regression with a Bayesian neural network: predictions of the test rows and their calibration."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr

from civi.experiment.report.figure_file import save_figure
from civi.experiment.report.regression_figure import colours_of

matplotlib.use("Agg")
MOST = 400
Predicted = dict[str, tuple[np.ndarray, np.ndarray]]


def draw_predictions(predicted: Predicted, y: np.ndarray, path: Path, title: str) -> Path:
    """Draw the predictive mean with a band of two standard deviations against y, and the calibration.

    Args:
        predicted: for each solver, the predictions (draw, row) and the standard deviations of y given each draw.
        y: the observed targets of the rows.
        path: the image file.
        title: name of the task, for the title.
    """
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    some = np.random.default_rng(0).permutation(len(y))[:MOST]
    for name, colour in colours_of(list(predicted)).items():
        values, sds = predicted[name]
        sd = np.sqrt(values.var(0) + (sds**2).mean(0))
        left.errorbar(
            *(y[some], values.mean(0)[some], 2 * sd[some]),
            fmt=".", color=colour, markersize=4, elinewidth=0.5, alpha=0.6, label=name,
        )  # fmt: skip
        below = np.sort(ndtr((y - values) / sds).mean(0))
        right.plot((np.arange(len(y)) + 0.5) / len(y), below, color=colour, linewidth=1.4)
    ends = [y.min(), y.max()]
    left.plot(ends, ends, color="black", linewidth=0.8)
    left.set(xlabel="observed", ylabel="predicted, with two standard deviations", title=f"{len(some)} test rows")
    right.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    right.set(xlabel="quantile", ylabel="predictive distribution function at y, sorted", title="calibration")
    figure.legend(*left.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.suptitle(f"{title}: predictions of the test rows")
    save_figure(figure, path, dpi=120)
    return path
