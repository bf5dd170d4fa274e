"""The figure of a conditioned diffusion: bands of the path under the reference and under fits."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from civi.experiment.data.diffusion import DiffusionData
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.figure_file import save_figure
from civi.experiment.report.regression_figure import as_in_paper, colours_of
from civi.inference.report.looks import REFERENCE

matplotlib.use("Agg")
BAND = (0.05, 0.5, 0.95)


def draw_paths(reference: np.ndarray, draws: DrawsBySolver, data: DiffusionData, path: Path) -> Path:
    """Draw 90% bands and medians of the reference (filled) and of each solver (lines), and the ratio of the sds.

    Args:
        reference: reference draws of paths, (draw, time).
        draws: draws of paths of each solver.
        data: the simulated path and the observations.
        path: the image file.
    """
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    bands, ratios = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    low, middle, high = np.quantile(reference, BAND, axis=0)
    bands.fill_between(data.times, low, high, color=REFERENCE.colour, alpha=0.3, label="nuts, 90%")
    bands.plot(data.times, middle, color=REFERENCE.colour, linewidth=3, label="nuts, median")
    shown = as_in_paper({name: values for name, values in draws.items() if name != "nuts"})
    for name, colour in colours_of(list(shown)).items():
        quantiles = np.quantile(shown[name], BAND, axis=0)
        for i, line in enumerate(quantiles):
            label = f"{name}, 90% and median" if i == 0 else None
            bands.plot(data.times, line, color=colour, linewidth=1.0, label=label)
        ratios.plot(data.times, shown[name].std(0) / reference.std(0), color=colour, linewidth=1.2)
    bands.plot(data.times, data.path, color="0.35", linewidth=0.8, linestyle="--", label="simulated path")
    bands.plot(data.observed_times, data.observations, "k.", markersize=6, label="observations")
    ratios.axhline(1.0, color="black", linewidth=0.8)
    bands.set(ylabel="u", title="diffusion: the path given 20 observations")
    ratios.set(xlabel="time", ylabel="sd / sd of nuts")
    figure.legend(*bands.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    save_figure(figure, path, dpi=130)
    return path
