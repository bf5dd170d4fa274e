"""Figures of autoencoders: reconstructions, prior samples, interpolations, posterior draws."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from civi.errors import require
from civi.experiment.report.figure_file import save_figure
from civi.inference.report.looks import looks_of

matplotlib.use("Agg")
SIDE = 28
GAP = 1
CELL = 0.62
LINE = 0.18
RECONSTRUCTED = 16
CLOUDS = 6
POINTS = 1500
COLOURS = tuple(look.colour for look in looks_of([""] * CLOUDS))


def draw_reconstructions(originals: np.ndarray, means: np.ndarray, path: Path) -> Path:
    """Draw the first 16 images, and below each the decoded draw of its posterior.

    Args:
        originals: images (n, 784) in [0, 1].
        means: decoded images (n, 784) in [0, 1].
        path: the image file.
    """
    require(
        originals.shape == means.shape, f"originals {originals.shape} and means {means.shape} must have the same shape"
    )
    pairs = np.stack([originals[:RECONSTRUCTED], means[:RECONSTRUCTED]])
    return _draw_tiles(pairs, path, "Test images and their reconstructions", ("image", "decoded"))


def draw_grid(images: np.ndarray, path: Path, title: str, columns: int = 10) -> Path:
    """Draw images (n, 784) in [0, 1] row by row; an incomplete last row is filled with white."""
    rows = -(-len(images) // columns)
    cells = np.zeros((rows * columns, images.shape[1]))
    cells[: len(images)] = images
    return _draw_tiles(cells.reshape(rows, columns, -1), path, title)


def draw_walk(images: np.ndarray, path: Path) -> Path:
    """Draw images (rows, steps, 784) in [0, 1]; each row interpolates between the latents of two test images."""
    return _draw_tiles(images, path, "Interpolations in latent space between pairs of test images")


def _draw_tiles(images: np.ndarray, path: Path, title: str, names: tuple[str, ...] = ()) -> Path:
    """Draw images (rows, columns, 784) as one grid, black on white; `names` label the rows."""
    rows, columns = images.shape[:2]
    figure = Figure(figsize=(max(CELL * columns, 4.8), CELL * rows + 0.35), layout="constrained")
    axes = figure.subplots()
    axes.imshow(tile(images), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    step = SIDE + GAP
    axes.set_yticks([GAP + SIDE / 2 + step * row for row in range(len(names))], names)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=11)
    save_figure(figure, path, dpi=150)
    return path


def tile(images: np.ndarray) -> np.ndarray:
    """Arrange images (rows, columns, 784) in one array, separated by light grey lines."""
    rows, columns = images.shape[:2]
    step = SIDE + GAP
    canvas = np.full((rows * step + GAP, columns * step + GAP), LINE)
    for row in range(rows):
        for column in range(columns):
            top, left = GAP + row * step, GAP + column * step
            canvas[top : top + SIDE, left : left + SIDE] = images[row, column].reshape(SIDE, SIDE)
    return canvas


def draw_latents(z: np.ndarray, path: Path, datum: str = "image") -> Path:
    """Draw the posteriors of the first six data points.

    The left panel shows all of them in their first two principal components. The other panels show each one in its own
    first two principal components, with the ellipses that would contain 50% and 90% of a Gaussian.

    Args:
        z: posterior draws (data, draws, dimension).
        path: the image file.
        datum: what one data point is called in the titles.
    """
    z = z[:CLOUDS, :POINTS]
    count, side = len(z), -(-len(z) // 2)
    figure = Figure(figsize=(5.2 + 2.6 * side, 5.2), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(5.2, 2.6 * side))[0]
    all_together = left.subplots()
    projected = plane(z.reshape(-1, z.shape[2])).reshape(count, -1, 2)
    for cloud, colour in zip(projected, COLOURS, strict=False):
        all_together.plot(*cloud.T, ".", color=colour, markersize=2, alpha=0.5)
    all_together.set(xlabel="first component", ylabel="second component", title="all together", aspect="equal")
    all_together.set_adjustable("datalim")
    panels = right.subplots(2, side, squeeze=False).ravel()
    for i, (axes, cloud) in enumerate(zip(panels, z, strict=False)):
        _draw_cloud(axes, plane(cloud), COLOURS[i], f"{datum} {i + 1}")
    for axes in panels[count:]:
        axes.set_axis_off()
    figure.suptitle(f"Posterior draws of test {datum}s; dashed: 50% and 90% regions of a Gaussian", fontsize=12)
    save_figure(figure, path, dpi=130)
    return path


def plane(z: np.ndarray) -> np.ndarray:
    """The first two principal components of draws (draws, dimension)."""
    require(z.shape[1] >= 2, f"draws must have at least 2 dimensions, not {z.shape[1]}")
    centred = z - z.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return centred @ directions[:, ::-1][:, :2]


def _draw_cloud(axes: Axes, draws: np.ndarray, colour: str, title: str) -> None:
    sd = draws.std(axis=0)
    axes.plot(*draws.T, ".", color=colour, markersize=2, alpha=0.4)
    for mass in (0.5, 0.9):
        width, height = 2 * sd * np.sqrt(-2 * np.log(1 - mass))
        axes.add_patch(Ellipse((0, 0), width, height, fill=False, linestyle="--", linewidth=1))
    axes.set(aspect="equal")
    axes.set_title(title, fontsize=10)
    axes.set_adjustable("datalim")
    axes.tick_params(labelsize=8)
