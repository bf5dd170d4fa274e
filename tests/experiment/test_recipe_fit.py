"""The recipe `fit`: what `civi.fit` chooses, by the dimension of a task's target."""

import pytest

from civi.errors import SettingError
from civi.experiment.recipes import settings_for
from civi.inference.pilot import Gaussian
from civi.inference.recipe import PILOT_ROWS, fit_settings
from civi.problem import ProblemSettings
from civi.solver import SOLVERS


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in ("mfvb", "pvi")])
def test_a_task_has_the_settings_of_civi_fit_for_its_dimension(solver):
    assert settings_for("banana", solver, "fit") == fit_settings(solver, 2)


@pytest.mark.parametrize(("dim", "inner"), [(1, 300), (3, 300), (5, 200), (10, 100), (50, 100), (100, 50), (1000, 25)])
def test_inner_samples_are_fewer_in_more_dimensions(dim, inner):
    settings = fit_settings("civi", dim)
    assert settings.solver.samples.inner == inner
    assert settings.family.noise_dim == max(3, min(dim, 10))
    assert (settings.pilot, settings.problem) == (Gaussian(), ProblemSettings())


def test_steps_and_batch_are_those_asked_for():
    settings = fit_settings("civi", 4, steps=7, batch=32)
    assert (settings.solver.steps, settings.problem.batch, settings.pilot.batch) == (7, 32, PILOT_ROWS)
    assert fit_settings("civi", 4).solver.steps == 6_000


@pytest.mark.parametrize(
    ("task", "solver", "message"),
    [
        ("mnist", "civi", "civi.fit has no settings for autoencoders such as 'mnist': use --recipe default"),
        ("regression", "civi", "--recipe fit is for the named tasks, not for 'regression': use --recipe default"),
        ("banana", "mfvb", "unknown solver for civi.fit 'mfvb'"),
        ("banana", "pvi", "unknown solver for civi.fit 'pvi'"),
        ("banana", "nuts", "unknown solver for civi.fit 'nuts'"),
    ],
)
def test_what_civi_fit_has_no_settings_for_is_refused(task, solver, message):
    with pytest.raises(SettingError) as refused:
        settings_for(task, solver, "fit")
    assert str(refused.value).startswith(message)
