"""The learning curves of a comparison: median and range over seeds, against steps or epochs and seconds."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from civi.experiment.report import comparison
from civi.experiment.report.comparison import draw_curves
from civi.experiment.solver_result import Curve, SolverResult
from civi.experiment.tasks import find_task

VALUES = [[8.0, 6.0, 7.0], [3.0, 5.0, 4.0], [2.0, 1.0, 9.0]]


def outcome(name, values=VALUES, epochs=None):
    seeds = len(values[0]) if values else 3
    steps = [10 * i for i in range(len(values))]
    curve = Curve(steps, [0.5 * step for step in steps], values)
    return SolverResult(name, [{}] * seeds, curve, [None] * seeds, 1.0, 0.0, 20, {}, np.zeros((4, 2)), epochs)


@pytest.fixture
def drawn(keep_figures, tmp_path):
    """Draw the curves of these results and return the figure."""
    figures = keep_figures(comparison)

    def draw(outcomes, task="banana"):
        path = draw_curves(outcomes, find_task(task), tmp_path / "curves.png")
        assert path.read_bytes().startswith(b"\x89PNG")
        return figures[-1]

    return draw


def test_every_solver_with_a_curve_is_drawn_with_its_median_and_range(drawn):
    figure = drawn([outcome("civi"), outcome("sivi", [[9.0], [8.0], [7.0]]), outcome("nuts", [])])
    left, right = figure.axes
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["civi", "sivi"]
    for axes, x in ((left, [0, 10, 20]), (right, [0, 5, 10])):
        first, second = axes.lines
        np.testing.assert_allclose(first.get_data(), [x, [7, 4, 2]])
        np.testing.assert_allclose(second.get_data(), [x, [9, 8, 7]])
        assert to_hex(first.get_color()) != to_hex(second.get_color())
        heights = axes.collections[0].get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (1, 9)
    assert (left.get_xlabel(), right.get_xlabel()) == ("step", "seconds per seed")
    assert figure.get_suptitle() == "banana: median and range over 3 seeds"


def test_a_toy_has_a_logarithmic_axis_and_a_posterior_of_unknown_evidence_has_not(drawn):
    assert drawn([outcome("civi")]).axes[0].get_yscale() == "log"
    left = drawn([outcome("civi")], "nodal").axes[0]
    assert left.get_yscale() == "linear"
    low, high = left.get_ylim()
    assert low < 2 < 7 <= high


def test_steps_are_epochs_where_every_solver_sees_batches(drawn):
    left = drawn([outcome("civi", epochs=0.1), outcome("sivi", epochs=0.2)]).axes[0]
    assert left.get_xlabel() == "epoch"
    np.testing.assert_allclose([line.get_xdata() for line in left.lines], [[0, 1, 2], [0, 2, 4]])
    assert drawn([outcome("civi", epochs=0.1), outcome("sivi")]).axes[0].get_xlabel() == "step"


def test_what_diverged_is_left_out_where_it_is_absurd(drawn):
    left = drawn([outcome("wild", [[1.0, 2.0], [1e9, 3.0], [np.nan, -1e9]])]).axes[0]
    np.testing.assert_allclose(left.lines[0].get_data(), [[0, 10], [1.5, 3.0]])
