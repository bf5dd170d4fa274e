"""Recipes: the paper's constants, copied a second time from its appendix B."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from civi.cli import main as cli
from civi.errors import SettingError
from civi.experiment.recipes import settings_for
from civi.experiment.report import toy_figure
from civi.experiment.tasks import TASKS
from civi.solver import LogTrick
from civi.tracker import Extrapolated
from civi.update import CiviAdam
from small_tasks import Ready, small_toy

# Table "Experimental settings for toy examples": iterations, K1, K2, C_alpha, C_beta, C_gamma, mu.
TOYS = {
    "two-modal": (200, 100, 1000, 3e-4, 0.99, 0.9, 0.999),
    "star": (300, 200, 2000, 2e-4, 0.999, 0.9, 0.999),
    "banana": (300, 200, 2000, 3e-4, 0.999, 1.0, 0.999),
}


@pytest.mark.parametrize("task", TOYS)
def test_paper_has_the_constants_of_appendix_b(task):
    settings = settings_for(task, "civi", "paper")
    steps, outer, inner, c_alpha, c_beta, c_gamma, mu = TOYS[task]
    solver = settings.solver
    assert (solver.steps, solver.samples.outer, solver.samples.inner) == (steps, outer, inner)
    assert solver.tracker == Extrapolated(beta=c_beta, decay=0.0)
    assert type(solver.update) is CiviAdam
    assert (solver.update.c_alpha, solver.update.c_gamma, solver.update.mu) == (c_alpha, c_gamma, mu)
    assert solver.samples.growth == 0.0


@pytest.mark.parametrize("task", TOYS)
def test_paper_is_the_literal_algorithm(task):
    solver = settings_for(task, "civi", "paper").solver
    assert (solver.objective, solver.output) == (LogTrick("plain", "ratio"), "last")
    assert (solver.pool.draw, solver.sketch.form, solver.update.clip) == ("uniform", "none", None)


@pytest.mark.parametrize("task", TOYS)
def test_paper_has_the_family_of_appendix_b(task):
    family = settings_for(task, "civi", "paper").family
    assert (family.hidden, family.activation) == ((50, 50), "relu")
    assert (family.noise_dim, family.noise_scale) == (3, 1.0)
    assert family.conditional == "diagonal"


def test_default_bounds_the_objective_for_every_task():
    for task in TOYS:
        assert settings_for(task, "civi", "default").solver.objective.inner_mean == "safe"


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(SettingError, match="unknown recipe 'defualt': did you mean 'default'"):
        settings_for("banana", "civi", "defualt")
    with pytest.raises(SettingError, match="unknown solver 'civvi': did you mean 'civi'"):
        settings_for("banana", "civvi", "default")
    with pytest.raises(SettingError, match="the paper has no settings for task 'mine': use --recipe default"):
        settings_for("mine", "civi", "paper")


def test_a_few_steps_of_the_paper_on_the_banana_are_finite(tmp_path, monkeypatch):
    """C_gamma = 1 makes 1 - gamma2_1 about 3e-10; a naive float32 computation would divide by 0 at the first step."""
    monkeypatch.setitem(TASKS, "banana", Ready(small_toy("banana", outer=50, inner=100)))
    monkeypatch.setattr(toy_figure, "GRID", 30)
    arguments = ["run", "banana", "--recipe", "paper", "--steps", "3", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (metrics["recipe"], metrics["status"], metrics["skipped_steps"]) == ("paper", "finished", 0)
    assert all(math.isfinite(metrics[name]) for name in ("neg_elbo", "neg_elbo_se"))
    history = np.genfromtxt(tmp_path / "history.csv", delimiter=",", names=True)
    assert history["step"].tolist() == [1, 2, 3]
    assert all(np.isfinite(history[name]).all() for name in history.dtype.names)
    settings = json.loads((tmp_path / "config.json").read_text())["settings"]
    assert (settings["samples"]["outer"], settings["samples"]["inner"]) == (200, 2000)
