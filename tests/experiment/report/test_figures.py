"""Figures: what they claim about mass is true, and what they are given can be seen."""

import numpy as np
import pytest
from matplotlib.image import imread

from civi.experiment.report.history_figure import draw_history
from civi.experiment.report.toy_figure import MASSES, draw_toy, mass_levels
from civi.problem.target import two_modal

RED, DARK_BLUE = np.array([0.698, 0.094, 0.169]), np.array([0.031, 0.318, 0.612])


def gaussian(scales=(1.0, 1.0), points=400):
    x, y = np.meshgrid(*(np.linspace(-6 * scale, 6 * scale, points) for scale in scales))
    exponent = -0.5 * ((x / scales[0]) ** 2 + (y / scales[1]) ** 2)
    return np.exp(exponent) / (2 * np.pi * scales[0] * scales[1])


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.3, 5.0)])
def test_regions_above_the_levels_of_a_gaussian_hold_the_claimed_mass(scales):
    density = gaussian(scales)
    levels = mass_levels(density)
    held = [density[density >= level].sum() / density.sum() for level in levels]
    np.testing.assert_allclose(held, MASSES, atol=2e-3)
    exact = [(1 - mass) * density.max() for mass in MASSES]
    np.testing.assert_allclose(levels, exact, rtol=0.01)


def test_levels_do_not_depend_on_the_normaliser_or_on_cells_that_are_not_finite():
    density = gaussian()
    levels = np.array(mass_levels(density))
    np.testing.assert_allclose(mass_levels(1e6 * density), 1e6 * levels, rtol=1e-5)
    broken = density.copy()
    broken[0, 0], broken[-1, -1] = np.nan, np.inf
    np.testing.assert_allclose(mass_levels(broken), levels, rtol=1e-5)


@pytest.mark.parametrize("density", [np.zeros((20, 20)), np.ones((20, 20)), np.eye(20), np.full((20, 20), np.nan)])
def test_levels_increase_even_for_degenerate_densities(density):
    levels = mass_levels(density)
    assert len(levels) == len(MASSES)
    assert np.isfinite(levels).all()
    assert (np.diff(levels) > 0).all()


def near(image, colour, tolerance=0.25):
    """Which pixels are about this colour."""
    return np.abs(image[..., :3] - colour).max(axis=2) < tolerance


def test_the_toy_figure_shows_the_draws_where_they_are(tmp_path):
    rng = np.random.default_rng(0)
    left = rng.normal([-2.0, 0.0], 0.1, (500, 2))
    images = {}
    for name, draws in {"left": left, "right": left + np.array([4.0, 0.0])}.items():
        path = draw_toy(two_modal(), None, draws, tmp_path / f"{name}.png", "two-modal")
        images[name] = imread(path)
    assert path == tmp_path / "right.png"
    columns = {name: np.nonzero(near(image, RED))[1] for name, image in images.items()}
    width = images["left"].shape[1]
    assert all(len(column) > 100 for column in columns.values())
    assert all(column.min() > 0.5 * width for column in columns.values())  # the right panel has the draws
    assert columns["left"].max() < columns["right"].min()
    panel = images["left"][:, : width // 2]
    blue = panel[..., 2] - panel[..., 0] > 0.3  # the target's inner regions, which surround both modes
    assert blue[:, : width // 4].sum() > 1000
    assert blue[:, width // 4 :].sum() > 1000


def history(values):
    steps = len(values)
    return {
        "step": np.arange(1.0, steps + 1),
        "neg_elbo": np.asarray(values, float),
        "weight_mean": np.ones(steps),
        "weight_sd": np.full(steps, 0.1),
    }


def test_a_run_without_a_tracker_has_no_panel_of_weights(tmp_path):
    values = history(np.linspace(9.0, 1.0, 400)) | {"weight_sd": np.full(400, 6e-8)}
    assert imread(draw_history(values, tmp_path / "history.png")).shape[:2] == (468, 715)


def test_the_learning_curve_falls_from_left_to_right(tmp_path):
    image = imread(draw_history(history(np.linspace(9.0, 1.0, 400)), tmp_path / "history.png"))
    half = image[:, : image.shape[1] // 2]
    rows, columns = np.nonzero(near(half, DARK_BLUE, 0.05))
    inside = columns < 0.5 * columns.max()  # the legend is at the right
    assert inside.sum() > 100
    assert np.corrcoef(columns[inside], rows[inside])[0, 1] > 0.99


@pytest.mark.parametrize("values", [[3.0], [3.0, np.nan, np.inf, 2.0], [np.nan] * 60])
def test_the_learning_curve_bears_single_steps_and_values_that_are_not_finite(tmp_path, values):
    path = draw_history(history(values), tmp_path / "history.png")
    image = imread(path)
    assert image.shape[:2] == (468, 1300)
    assert near(image, np.zeros(3), 0.1).sum() > 500
