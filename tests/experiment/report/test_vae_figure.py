"""The figures of an autoencoder: the positions of images, principal components, and unchanged sentences."""

import numpy as np
import pytest
from matplotlib.patches import Ellipse

from civi.errors import SettingError
from civi.experiment.report import vae_figure
from civi.experiment.report.vae_figure import (
    draw_grid,
    draw_latents,
    draw_reconstructions,
    draw_walk,
    plane,
    tile,
)


@pytest.fixture
def figures(keep_figures):
    return keep_figures(vae_figure)


def some(*shape):
    return np.random.default_rng(0).uniform(size=(*shape, 784))


def shown(figure):
    """The only image of a figure, and the names of its rows; its x axis has no ticks."""
    (axes,) = figure.axes
    (image,) = axes.images
    assert not axes.get_xticks().size
    assert image.get_clim() == (0, 1)
    assert [image.get_cmap()(float(value))[:3] for value in (0, 1)] == [(1, 1, 1), (0, 0, 0)]  # ones are black
    return np.asarray(image.get_array()), [label.get_text() for label in axes.get_yticklabels()]


def cell(canvas, row, column):
    """The pixels of one tile; tiles have side 28 and are separated by lines of width 1."""
    top, left = 1 + 29 * row, 1 + 29 * column
    return canvas[top : top + 28, left : left + 28].ravel()


def test_tiles_stand_in_rows_with_a_line_around_each():
    images = some(2, 3)
    canvas = tile(images)
    assert canvas.shape == (2 * 29 + 1, 3 * 29 + 1)
    for row in range(2):
        for column in range(3):
            assert np.array_equal(cell(canvas, row, column), images[row, column])
    lines = canvas[::29]
    assert len(lines) == 3
    assert np.ptp(np.concatenate([lines.ravel(), canvas[:, ::29].ravel()])) == 0


def test_reconstructions_stand_below_the_first_sixteen_images(figures, tmp_path):
    originals, means = some(20), some(20)[::-1]
    path = draw_reconstructions(originals, means, tmp_path / "reconstructions.png")
    canvas, names = shown(figures[0])
    assert names == ["image", "decoded"]
    assert canvas.shape == (2 * 29 + 1, 16 * 29 + 1)
    assert np.array_equal(cell(canvas, 0, 15), originals[15])
    assert np.array_equal(cell(canvas, 1, 15), means[15])
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SettingError, match=r"originals \(20, 784\) and means \(3, 784\) must have the same shape"):
        draw_reconstructions(originals, means[:3], path)


def test_a_grid_that_is_not_full_ends_in_white(figures, tmp_path):
    images = some(7)
    draw_grid(images, tmp_path / "grid.png", "Prior samples", columns=5)
    canvas, names = shown(figures[0])
    assert names == []
    assert figures[0].axes[0].get_title() == "Prior samples"
    assert canvas.shape == (2 * 29 + 1, 5 * 29 + 1)
    assert np.array_equal(cell(canvas, 1, 1), images[6])
    assert all((cell(canvas, 1, column) == 0).all() for column in (2, 3, 4))


def test_every_walk_is_a_row(figures, tmp_path):
    images = some(3, 8)
    draw_walk(images, tmp_path / "walk.png")
    canvas, _ = shown(figures[0])
    assert canvas.shape == (3 * 29 + 1, 8 * 29 + 1)
    assert np.array_equal(cell(canvas, 2, 7), images[2, 7])


def test_the_plane_is_that_of_largest_spread():
    rng = np.random.default_rng(0)
    scales = np.array([0.1, 5.0, 0.2, 2.0])
    independent = rng.normal(size=(2000, 4)) * scales
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    got = plane(independent @ turn.T + 7.0)
    for k, coordinate in enumerate((1, 3)):
        assert abs(np.corrcoef(got[:, k], independent[:, coordinate])[0, 1]) > 0.999
        assert got[:, k].std() == pytest.approx(scales[coordinate], rel=0.05)
    with pytest.raises(SettingError, match="at least 2 dimensions, not 1"):
        plane(independent[:, :1])


@pytest.mark.parametrize(("images", "dimension"), [(1, 2), (3, 4), (9, 10)])
def test_each_cloud_is_drawn_with_all_and_alone(figures, tmp_path, images, dimension):
    draws = np.random.default_rng(0).normal(size=(images, 200, dimension))
    draw_latents(draws, tmp_path / "latents.png")
    together, *alone = [axes for axes in figures[0].axes if axes.lines]
    count = min(images, 6)
    assert len(together.lines) == len(alone) == count
    assert [axes.get_title() for axes in alone] == [f"image {i + 1}" for i in range(count)]
    assert [line.get_color() for line in together.lines] == [axes.lines[0].get_color() for axes in alone]
    assert all(line.get_xydata().shape == (200, 2) for line in together.lines)


def test_the_ellipses_hold_the_claimed_share_of_a_gaussian_and_not_of_another(figures, tmp_path):
    rng = np.random.default_rng(0)
    gaussian = rng.normal(size=(1500, 3)) * [3.0, 1.0, 0.1]
    ring = rng.uniform(0, 2 * np.pi, 1500)
    other = np.stack([3 * np.cos(ring), np.sin(ring), 0 * ring], axis=1)
    draw_latents(np.stack([gaussian, other]), tmp_path / "latents.png")
    alone = [axes for axes in figures[0].axes if axes.get_title().startswith("image")]
    held = [[inside(axes, ellipse) for ellipse in axes.patches if isinstance(ellipse, Ellipse)] for axes in alone]
    assert held[0] == pytest.approx([0.5, 0.9], abs=0.04)
    assert held[1] == [0.0, 1.0]


def inside(axes, ellipse):
    """The fraction of the draws inside an ellipse around 0."""
    scaled = axes.lines[0].get_xydata() / (np.array([ellipse.width, ellipse.height]) / 2)
    return ((scaled**2).sum(axis=1) <= 1).mean()
