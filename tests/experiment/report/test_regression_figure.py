"""The figures of a regression: which solvers are shown, in which colours, on which rows."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.contour import ContourSet

from civi.experiment.data.regression import RegressionData
from civi.experiment.report import regression_figure
from civi.experiment.report.regression_figure import colours_of, draw_marginals, draw_pairs, draw_predictive
from civi.inference.report.looks import LOOKS

COLUMNS = ("intercept", "age", "dose")


@pytest.fixture
def figures(keep_figures):
    return keep_figures(regression_figure)


def draws_of(*names):
    rng = np.random.default_rng(0)
    return {name: rng.normal(loc=i, size=(400, 3)) for i, name in enumerate(names)}


def data(test_rows):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(2, size=40).astype(np.float32)
    return RegressionData("trial", "made up", COLUMNS, x, y, x[:test_rows] * 2, y[:test_rows])


def legend_of(figure):
    (legend,) = figure.legends
    return {
        text.get_text(): to_hex(line.get_color())
        for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)
    }


def fills(axes):
    """The colours of the violins of a panel, in order."""
    return [to_hex(body.get_facecolor()[0]) for body in axes.collections if len(body.get_facecolor())]


def contour_colours(axes, *, filled):
    """The colours of all filled regions or of all contour lines of a panel."""
    sets = [one for one in axes.collections if isinstance(one, ContourSet) and one.filled == filled]
    return {to_hex((one.get_facecolor() if filled else one.get_edgecolor())[0]) for one in sets}


def test_marginals_show_every_solver_at_its_place(figures, tmp_path):
    draws = draws_of("nuts", "sivi", "civi")
    path = draw_marginals(draws, COLUMNS, tmp_path / "marginals.png", "trial")
    assert path == tmp_path / "marginals.png"
    (figure,) = figures
    assert legend_of(figure) == colours_of(list(draws))
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(COLUMNS)
    assert axes.get_title() == "trial: marginal posteriors"
    medians = [line.get_ydata() for line in axes.lines]
    np.testing.assert_allclose(medians, [np.median(values, axis=0) for values in draws.values()])
    places = np.array([line.get_xdata() for line in axes.lines])
    assert (np.diff(places, axis=0) > 0).all()
    np.testing.assert_allclose(places.mean(0), range(3), atol=1e-9)
    assert fills(axes) == [colours_of(list(draws))[name] for name in draws for _ in COLUMNS]
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("nuts", "sivi", "civi", "uivi", "mfvb"), ("nuts", "civi", "mfvb")),
        (("nuts", "sivi", "uivi"), ("nuts", "sivi", "uivi")),
        (("civi",), ("civi",)),
    ],
)
def test_pairs_keep_to_the_three_of_the_paper_where_there_are_more(figures, tmp_path, names, shown):
    draw_pairs(draws_of(*names), COLUMNS, tmp_path / "pairs.png", "trial")
    (figure,) = figures
    legend = legend_of(figure)
    assert tuple(legend) == shown
    assert legend == colours_of(shown)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(COLUMNS)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(COLUMNS)
    lines = shown[1:] or shown
    assert {to_hex(line.get_color()) for line in axes.lines} == {legend[name] for name in lines}
    assert len(axes.lines) == len(lines) * 3  # marginals on the diagonal
    assert contour_colours(axes, filled=False) == {legend[name] for name in lines}
    assert contour_colours(axes, filled=True) == {legend[name] for name in shown if name not in lines}


@pytest.mark.parametrize("names", [("nuts", "sivi", "uivi", "fullrank"), ("sivi", "uivi", "fullrank", "cadam")])
def test_four_solvers_that_are_not_those_of_the_paper_are_still_compared(figures, tmp_path, names):
    draw_pairs(draws_of(*names), COLUMNS, tmp_path / "pairs.png", "trial")
    assert len(legend_of(figures[0])) > 1


@pytest.mark.parametrize(("test_rows", "says"), [(12, "12 test rows"), (0, "40 training rows")])
def test_predictions_say_which_rows_they_are_of(figures, tmp_path, test_rows, says):
    draws = draws_of("nuts", "civi")
    path = draw_predictive(draws, data(test_rows), tmp_path / "predictive.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    (figure,) = figures
    assert figure.get_suptitle() == f"trial: predictions on {says}"
    assert legend_of(figure) == {"nuts": LOOKS["nuts"].colour, "civi": LOOKS["civi"].colour}
    mean, sd, calibration = figure.axes
    assert mean.get_xlabel() == "mean, nuts"
    assert sd.get_xlabel() == "standard deviation, nuts"
    points = mean.lines[0]
    assert to_hex(points.get_color()) == LOOKS["civi"].colour
    assert len(points.get_xdata()) == (test_rows or 40)
    assert [len(line.get_xdata()) for line in calibration.lines] == [10, 10, 2]


def test_predictions_of_few_rows(figures, tmp_path):
    """Fewer rows than groups: no group may be empty."""
    draw_predictive(draws_of("nuts", "civi"), replace(data(4), name="few"), tmp_path / "predictive.png")
    assert figures[0].get_suptitle() == "few: predictions on 4 test rows"
    *calibration, diagonal = figures[0].axes[2].lines
    for line in calibration:
        assert line.get_xydata().shape == (4, 2)
        assert np.isfinite(line.get_xydata()).all()
        assert sorted(line.get_ydata()) == sorted(data(4).y_test)
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
