"""Figures: regions contain the mass that they claim, and the data that are given are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.colors import to_hex

from civi.experiment.report import history_figure, toy_figure
from civi.experiment.report.history_figure import draw_history
from civi.experiment.report.toy_figure import MASSES, draw_solvers, draw_toy, mass_levels
from civi.problem.target import two_modal

CIVI, PALE_BLUE, DARK_BLUE, ORANGE = "#0072b2", "#9ecae1", "#08519c", "#fd8d3c"


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


def some_draws():
    return np.random.default_rng(0).normal([-2.0, 0.0], 0.1, (1600, 2))


def log_q(points):
    """N((-2, 0), I)."""
    return -0.5 * ((points - jnp.array([-2.0, 0.0])) ** 2).sum(1) - jnp.log(2 * jnp.pi)


def test_the_toy_figure_shows_the_draws_where_they_are(keep_figures, tmp_path):
    figures, draws = keep_figures(toy_figure), some_draws()
    path = draw_toy(two_modal(), None, draws, tmp_path / "left.png", "two-modal")
    assert path == tmp_path / "left.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    left, right = figures[0].axes
    assert len(left.lines) == 0
    (points,) = right.lines
    np.testing.assert_array_equal(points.get_xydata(), draws[:1500])
    assert to_hex(points.get_color()) == CIVI
    assert (left.get_title(), right.get_title()) == ("target (filled)", "draws on the target")
    assert figures[0].get_suptitle() == "two-modal: regions that contain 95%, 80%, 60%, 40%, 20% of the mass"


def contours(axes):
    """The levels of each contour set in a panel, and the line colour of those that are not filled."""
    return [
        (np.asarray(one.levels), None if one.filled else to_hex(one.get_edgecolor()[0])) for one in axes.collections
    ]


def test_the_toy_figure_has_the_target_in_both_panels_and_q_as_lines_in_one(keep_figures, tmp_path):
    figures, target = keep_figures(toy_figure), two_modal()
    draw_toy(target, log_q, some_draws(), tmp_path / "density.png", "two-modal")
    left, right = figures[0].axes
    (of_p, filled), (of_q, lines) = contours(left)
    assert (filled, lines) == (None, CIVI)
    assert [colour for _, colour in contours(right)] == [None]
    assert left.get_title() == "target (filled) and q (lines)"
    np.testing.assert_allclose(of_q, [(1 - mass) / (2 * np.pi) for mass in MASSES], rtol=0.02)
    assert len(of_p) == len(MASSES) + 1
    assert of_p[0] < of_q[0]
    (low, high), (bottom, top) = left.get_xlim(), left.get_ylim()
    assert (-low, high) == pytest.approx((6, 6), abs=1)
    assert (-bottom, top) == pytest.approx((4, 4), abs=1)


def test_every_solver_has_a_panel_with_its_own_draws_on_the_target(keep_figures, tmp_path):
    figures, exact = keep_figures(toy_figure), np.asarray(two_modal().sample(jax.random.key(1), 100))
    nowhere = np.full((100, 2), np.nan)
    path = draw_solvers(two_modal(), {"civi": exact, "sivi": -exact, "scgd": nowhere}, tmp_path / "d.png", "two-modal")
    assert path.read_bytes().startswith(b"\x89PNG")
    panels = figures[0].axes
    assert [axes.get_title() for axes in panels] == ["civi", "sivi", "scgd: diverged"]
    for axes, shown in zip(panels, (exact, -exact, nowhere[:0]), strict=True):
        (points,) = axes.lines
        np.testing.assert_array_equal(points.get_xydata(), shown)
        assert len(contours(axes)) == 1
    assert to_hex(panels[0].lines[0].get_color()) == CIVI


def history(values):
    steps = len(values)
    return {
        "step": np.arange(1.0, steps + 1),
        "neg_elbo": np.asarray(values, float),
        "weight_mean": np.ones(steps),
        "weight_sd": np.full(steps, 0.1),
    }


def drawn(keep_figures, values, tmp_path):
    """The panels of the figure of a history."""
    figures = keep_figures(history_figure)
    path = draw_history(values, tmp_path / "history.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    return figures[0].axes


def lines_of(axes):
    return {line.get_label(): (to_hex(line.get_color()), *line.get_data()) for line in axes.lines}


@pytest.mark.parametrize(("sd", "panels"), [(6e-8, 1), (0.1, 2)])
def test_a_run_without_a_tracker_has_no_panel_of_weights(keep_figures, tmp_path, sd, panels):
    values = history(np.linspace(9.0, 1.0, 400)) | {"weight_sd": np.full(400, sd)}
    assert len(drawn(keep_figures, values, tmp_path)) == panels


def test_the_learning_curve_has_every_step_and_the_mean_of_the_last_ones(keep_figures, tmp_path):
    values = np.linspace(9.0, 1.0, 400) + np.random.default_rng(0).normal(size=400)
    left, right = drawn(keep_figures, history(values), tmp_path)
    lines = lines_of(left)
    assert list(lines) == ["each step", "mean of 8 steps"]
    (pale, step, value), (dark, later, mean) = lines.values()
    assert (pale, dark) == (PALE_BLUE, DARK_BLUE)
    np.testing.assert_array_equal(step, np.arange(1, 401))
    np.testing.assert_array_equal(value, values)
    np.testing.assert_array_equal(later, np.arange(8, 401))
    np.testing.assert_allclose(mean, [values[end - 8 : end].mean() for end in range(8, 401)])
    assert (left.get_xlabel(), left.get_ylabel(), right.get_ylabel()) == ("step", "neg_elbo", "weights k")
    weights = lines_of(right)
    assert {name: colour for name, (colour, _, _) in weights.items()} == {"mean of k": DARK_BLUE, "sd of k": ORANGE}
    np.testing.assert_array_equal(weights["sd of k"][2], np.full(400, 0.1))


def test_the_limits_show_the_lowest_value_and_cut_the_highest_off(keep_figures, tmp_path):
    values = np.r_[1e6, np.linspace(9.0, 1.0, 399)]
    low, high = drawn(keep_figures, history(values), tmp_path)[0].get_ylim()
    assert 0 < low < 1
    assert 8.5 < high < 11


@pytest.mark.parametrize("values", [[3.0], [3.0, np.nan, np.inf, 2.0], [np.nan] * 60])
def test_the_learning_curve_bears_single_steps_and_values_that_are_not_finite(keep_figures, tmp_path, values):
    left, _ = drawn(keep_figures, history(values), tmp_path)
    np.testing.assert_array_equal(lines_of(left)["each step"][2], values)
    low, high = left.get_ylim()
    assert np.isfinite([low, high]).all()
    finite = [value for value in values if np.isfinite(value)]
    assert all(low < value < high for value in finite)
