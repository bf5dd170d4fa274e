"""The settings of every solver and recipe are checked and listed in full, and their listing restores them."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace

import pytest
from typer.testing import CliRunner

from civi.cli.main import app
from civi.errors import SettingError
from civi.estimate import Sketch
from civi.estimate.kernel import Kernel
from civi.estimate.player import Training
from civi.estimate.proposal import Reverse
from civi.estimate.reverse import Hmc
from civi.experiment.recipes import METHODS, settings_for
from civi.experiment.tasks import TASKS
from civi.family import Architecture
from civi.inference.nuts import Nuts
from civi.inference.pilot import Gaussian, Laplace
from civi.inference.settings import Settings
from civi.objective import PathGradient
from civi.problem import ImageArchitecture, ProblemSettings
from civi.solver import CompositionalSolver, LogTrick, PathwiseSolver
from civi.tracker import Bank, Extrapolated, Pool, Ring
from civi.update import CiviAdam, FirstOrder, Langevin, Samples


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CompositionalSolver(steps=1.5), "steps must be a whole number, not 1.5"),
        (lambda: CompositionalSolver(output="best"), "output must be one of last, average, uniform, not 'best'"),
        (
            lambda: CompositionalSolver(tracker="ring"),
            "tracker must be one of none, smoothed, extrapolated, ring, bank",
        ),
        (lambda: Hmc(leapfrog=None), "objective.score.leapfrog must be a whole number, not none"),
        (lambda: PathwiseSolver(objective="path"), "objective must be one of path, kernel-path, kernel-stein, fisher"),
        (
            lambda: PathwiseSolver(samples=Samples(growth=0.5)),
            "samples.growth and samples.auxiliary are for solvers with a tracker: leave them unset",
        ),
        (lambda: PathGradient(score=None), "objective.score must be one of fresh, hmc, proposal, regression, bank"),
        (lambda: Training(updates=-1), "training.updates must not be negative, not -1"),
        (lambda: Reverse(hidden=()), "reverse.hidden must be widths of at least 1, not ()"),
        (lambda: Kernel("laplace"), "objective.kernel.form must be one of gaussian, imq, not 'laplace'"),
        (lambda: Langevin(temperature=-1.0), "update.temperature must not be negative, not -1.0"),
        (lambda: FirstOrder(decay="stairs", stair=0), "update.stair must be at least 1, not 0"),
        (lambda: LogTrick("unsafe"), "objective.inner_mean must be one of safe, plain, not 'unsafe'"),
        (lambda: Samples(auxiliary=0.5), "samples.auxiliary must be a whole number or none, not 0.5"),
        (lambda: Samples(stages=()), "samples.stages must have at least one number, or be none"),
        (lambda: Pool(draw="all"), "pool.draw must be one of each, uniform, not 'all'"),
        (lambda: Bank(2.5), "tracker.steps must be a whole number, not 2.5"),
        (lambda: Ring(float("nan")), "tracker.beta must be finite, not nan"),
        (lambda: Extrapolated("x"), "tracker.beta must be a number, not 'x'"),
        (lambda: Sketch("thin"), "sketch.form must be one of none, dense, sparse, not 'thin'"),
        (lambda: CiviAdam(c_alpha=None), "update.c_alpha must be a number or numbers by group such as"),
        (lambda: FirstOrder("newton"), "update.rule must be one of adam, rmsprop, sgd, not 'newton'"),
        (lambda: FirstOrder(power=float("inf")), "update.power must be finite, not inf"),
        (lambda: Architecture(conditional="scald"), "unknown conditional 'scald': did you mean 'scaled'?"),
        (lambda: ImageArchitecture(decoder_hidden=None), "family.decoder_hidden must be comma-separated whole numbers"),
        (lambda: ProblemSettings(batch="x"), "problem.batch must be a whole number or none, not 'x'"),
        (lambda: Laplace(None), "pilot.steps must be a whole number, not none"),
        (lambda: Gaussian(starts=0.5), "pilot.starts must be a whole number, not 0.5"),
        (lambda: Nuts(chains="4"), "chains must be a whole number, not '4'"),
        (lambda: Settings(Architecture(), CompositionalSolver(), pilot="none"), "pilot must be one of none, laplace, "),
    ],
)
def test_every_group_of_settings_checks_its_values(make, message):
    with pytest.raises(SettingError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_an_unknown_name_is_refused_with_the_groups_that_there_are():
    settings = Settings(Architecture(), CompositionalSolver())
    with pytest.raises(SettingError, match=r"'famly.hidden': did you mean 'family.hidden'\? known: family.activation"):
        settings.changed(None, ["famly.hidden=3"])
    assert settings.changed(None, [" family.hidden=3"]).family.hidden == (3,)


def test_inner_samples_that_are_set_alone_replace_the_stages():
    settings = settings_for("star", "civi", "default")
    assert settings.solver.samples.stages == (50, 100, 400)
    assert settings.changed(None, ["samples.inner=7"]).solver.samples == Samples(inner=7)
    both = settings.changed(None, ["samples.inner=7", "samples.stages=1,7"]).solver.samples
    assert (both.inner, both.stages) == (7, (1, 7))
    assert settings.changed(None, ["samples.outer=7"]).solver.samples.stages == (50, 100, 400)
    with pytest.raises(SettingError, match=r"samples.inner \(400\) must be a multiple of the 3 devices"):
        settings.check_devices({"outer": 1, "inner": 3})


def every_recipe():
    """Settings for every solver and the tasks of every recipe: of `paper`, one of each kind; of `fit`, a toy task."""
    pairs = [("default", task) for task in TASKS] + [("fit", "star")]
    pairs += [("paper", task) for task in ("star", "spam", "mnist", "ptb")]
    for recipe, task in pairs:
        for solver in METHODS:
            try:
                settings = settings_for(task, solver, recipe)
            except SettingError:
                continue
            yield pytest.param(settings, id=f"{recipe}-{task}-{solver}")


def leaves(settings, prefix=""):
    """Dotted names of all fields that are not settings dataclasses themselves."""
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if is_dataclass(value) and not isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{entry.name}.")
        else:
            yield f"{prefix}{entry.name}".removeprefix("solver.")


def value_at(described, name):
    for step in name.split("."):
        described = described[step]
    return described


def text_of(value):
    """The JSON value as text that --set accepts."""
    if isinstance(value, dict):
        return value.get("kind") or ",".join(f"{group}:{number}" for group, number in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def fresh(settings):
    """Settings of the same classes with default values, but a different update and pilot."""
    if isinstance(settings, Nuts):
        return Nuts(2, 3, 4, 0.5)
    return Settings(type(settings.family)(), type(settings.solver)(steps=1, update=CiviAdam()), pilot=Gaussian())


@pytest.mark.parametrize("settings", list(every_recipe()))
def test_the_listing_of_a_recipe_is_complete_and_gives_its_settings_back(settings):
    rows, described = settings.listing(), settings.described()
    values = {row.name: value_at(described, row.name) for row in rows}
    chosen = {name for name, value in values.items() if isinstance(value, dict) and "kind" in value}
    assert sorted(values.keys() - chosen) == sorted(leaves(settings))
    assert {row.name: row.value for row in rows} == {name: text_of(value) for name, value in values.items()}
    assert all(row.meaning.endswith(".") and row.meaning[0] != " " for row in rows)
    assignments = [f"{row.name}={row.value}" for row in rows]
    for order in (1, -1):
        assert fresh(settings).changed(None, assignments[::order]) == settings
    assert json.loads(json.dumps(described)) == described
    assert hash(settings) == hash(replace(settings))


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (["mnist"], settings_for("mnist", "civi", "default")),
        (["spam", "--recipe", "paper"], settings_for("spam", "civi", "paper")),
        (["star", "--solver", "uivi"], settings_for("star", "uivi", "default")),
        (["star", "--solver", "nuts"], settings_for("star", "nuts", "default")),
        (["regression"], settings_for("regression", "civi", "default")),
        (
            ["star", "--steps", "7", "--set", "tracker=ring"],
            settings_for("star", "civi", "default").changed(7, ["tracker=ring"]),
        ),
    ],
)
def test_help_settings_prints_every_setting_and_runs_nothing(arguments, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["run", *arguments, "--help-settings"])
    assert result.exit_code == 0, result.output
    title, header, *lines = result.output.splitlines()
    assert title.startswith(f"{arguments[0]} with ")
    assert header.split() == ["setting", "type", "value", "meaning"]
    starts = [header.index(word) for word in ("setting", "type", "value", "meaning")]
    cells = [tuple(line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)) for line in lines]
    assert cells == [tuple(row) for row in settings.listing()]
    assert list(tmp_path.iterdir()) == []


def test_help_settings_of_an_unknown_task_is_an_error():
    result = CliRunner().invoke(app, ["run", "banan", "--help-settings"])
    assert isinstance(result.exception, SettingError)
    assert str(result.exception).startswith("unknown task 'banan': did you mean 'banana'?")
