"""The recipe `paper` of methods with a paper of their own: constants copied a second time from their settings."""

import pytest

from civi.errors import SettingError
from civi.experiment.recipes import settings_for
from civi.experiment.recipes.own_papers import OWN_PAPERS
from civi.solver import SOLVERS

TOYS = ("two-modal", "star", "banana")
# Steps, outer samples, inner samples, learning rate, factor, steps per stair.
PIELOK = {
    ("bsivi", "two-modal"): (4000, 128, 2048, 0.01, 0.1, 2000),
    ("bsivi", "star"): (4000, 128, 4096, 0.01, 0.1, 2000),
    ("bsivi", "banana"): (1000, 128, 1000, 0.003, 0.1, 2000),
    ("aisivi", "two-modal"): (4000, 128, 512, 0.01, 0.1, 2000),
    ("aisivi", "star"): (4000, 128, 256, 0.01, 0.1, 2000),
    ("aisivi", "banana"): (4000, 128, 8192, 0.01, 0.1, 2000),
}


@pytest.mark.parametrize(("solver", "task"), PIELOK)
def test_bsivi_and_aisivi(solver, task):
    settings = settings_for(task, solver, "paper")
    trainer, update = settings.solver, settings.solver.update
    found = (trainer.steps, trainer.samples.outer, trainer.samples.inner)
    assert (*found, update.learning_rate, update.factor, update.stair) == PIELOK[solver, task]
    assert (settings.family.noise_dim, settings.family.conditional, update.decay) == (2, "diagonal", "stairs")


@pytest.mark.parametrize("task", TOYS)
@pytest.mark.parametrize("solver", ["ksivi", "sivi-sm", "kpg"])
def test_methods_with_batches_of_500(solver, task):
    settings = settings_for(task, solver, "paper")
    trainer, update = settings.solver, settings.solver.update
    assert (trainer.steps, trainer.samples.outer, settings.family.hidden) == (50_000, 500, (50, 50))
    constants = (update.learning_rate, update.decay, update.factor, update.stair, update.beta2)
    assert constants == (1e-3, "stairs", 0.9, 1000, 0.99)
    narrow = (solver, task) == ("ksivi", "banana")
    assert settings.family.scale == (0.5 if narrow else 1.0)


def test_the_networks_and_kernels():
    assert settings_for("two-modal", "ksivi", "paper").solver.objective.kernel.form == "imq"
    assert settings_for("star", "ksivi", "paper").solver.objective.kernel.form == "gaussian"
    game = settings_for("star", "sivi-sm", "paper").solver.objective
    assert (game.hidden, game.training.updates, game.training.learning_rate) == ((128, 128), 1, 2e-3)
    regression = settings_for("star", "divi", "paper").solver.objective.score.training
    assert (regression.updates, regression.draws, regression.learning_rate) == (5, 2048, 1e-3)
    assert settings_for("star", "pvi", "paper").family.particles == 100


def test_a_task_that_a_paper_does_not_have_is_refused():
    assert {name for name in SOLVERS if name in OWN_PAPERS} == set(OWN_PAPERS)
    for solver, task in (("iwhvi", "star"), ("ksivi", "spam"), ("pvi", "mnist")):
        with pytest.raises(SettingError, match=f"the paper of {solver} has no settings for task '{task}'"):
            settings_for(task, solver, "paper")
