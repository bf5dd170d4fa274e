"""Regression tasks: an end-to-end run on a user's table, errors in one line, and both recipes."""

import csv
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib.image import imread
from typer.testing import CliRunner

import civi
from civi.cli import main as cli
from civi.experiment.plan import Plan
from civi.experiment.recipes import METHODS, settings_for
from civi.experiment.tasks import find_task, regression
from civi.inference.nuts import Nuts
from civi.inference.pilot import Laplace, NoPilot
from civi.inference.recipe import fit_settings
from civi.problem import ProblemSettings
from civi.solver import SOLVERS, LogTrick
from civi.tracker import Extrapolated
from civi.update import CiviAdam
from civi.update.groups import value_for

STEPS, ROWS, TEST_ROWS = 30, 60, 15
TINY = ("samples.outer=8", "samples.inner=5", "tracker=none", "family.hidden=none")
SMALL = tuple(word for assignment in TINY for word in ("--set", assignment))
FEWER = {"outer": 500, "inner": 500, "reference_draws": 100}
OWN = ("--data", "{table}", "--target", "y")
MEASURES = (
    "sliced_wasserstein",
    "sliced_wasserstein_floor",
    "sd_ratio_min",
    "sd_ratio_max",
    "mean_error_max",
    "correlation_error_max",
    "test_log_predictive_density",
    "test_accuracy",
    "test_calibration_error",
    "reference_r_hat",
)


def write_table(path: Path) -> Path:
    """60 rows: two numbers on different scales, a column of 0 and 1, and labels 1 and 2 that depend on them."""
    rng = np.random.default_rng(0)
    age, dose, smoker = rng.normal(50, 10, ROWS), rng.normal(0, 1e-3, ROWS), rng.integers(2, size=ROWS)
    logit = (age - 50) / 10 - 1e3 * dose + smoker
    labels = np.where(rng.uniform(size=ROWS) < 1 / (1 + np.exp(-logit)), 2, 1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "smoker", "y"])
        writer.writerows(zip(age, dose, smoker, labels, strict=True))
    return path


def read(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "trial.csv")


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory):
    """Use the usual measures with fewer samples, and an empty cache."""
    made = regression.own_table
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIVI_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("CIVI_DATA_DIR", raising=False)
        patch.setattr(regression, "own_table", lambda *data: replace(made(*data), **FEWER))
        yield


def arguments(table, folder, *, target="y"):
    data = ["--data", str(table), "--target", target, "--hold-out", "0.25"]
    return ["run", "regression", "--no-report", *data, "--steps", str(STEPS), "--out", str(folder), *SMALL]


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    result = CliRunner().invoke(cli.app, arguments(table, out), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return out


def test_the_folder_holds_the_files_of_the_contract(folder):
    names = {"config.json", "metrics.json", "history.csv", "draws.nc", "posterior.civi", "figures", "checkpoints"}
    assert {path.name for path in folder.iterdir()} == names
    figures = {path.name for path in (folder / "figures").iterdir()}
    assert figures == {"history.png", "marginals.png", "pairs.png", "predictive.png"}
    for name in figures:
        image = imread(folder / "figures" / name)[..., :3]
        assert 0.005 < (image.min(axis=2) < 0.9).mean() < 0.9


def test_config_says_which_data(folder, table):
    config = read(folder / "config.json")
    expected = {"task": "regression", "data": str(table), "target": "y", "hold_out": 0.25, "solver": "civi"}
    assert {name: config[name] for name in expected} == expected
    assert config["settings"]["pilot"] == {"kind": "laplace", "steps": 100}
    assert (config["settings"]["steps"], config["settings"]["problem"]["batch"]) == (STEPS, None)


def test_metrics_compare_with_the_reference_and_the_test_rows(folder):
    metrics = read(folder / "metrics.json")
    assert (metrics["task"], metrics["steps"], metrics["status"]) == ("regression", STEPS, "finished")
    assert metrics["data"] == "trial.csv, 60 rows; y = 2 is 1, y = 1 is 0"
    assert all(type(metrics[name]) is float and math.isfinite(metrics[name]) for name in MEASURES)
    assert metrics["sd_ratio_min"] <= metrics["sd_ratio_max"]
    assert metrics["reference_r_hat"] < 1.1
    assert metrics["test_accuracy"] * TEST_ROWS == pytest.approx(round(metrics["test_accuracy"] * TEST_ROWS))


def test_draws_are_in_the_coordinates_of_the_table_and_not_of_the_pilot(folder):
    """30 steps after the pilot, draws are near the posterior; draws left in the frame would be off by several sd."""
    metrics = read(folder / "metrics.json")
    assert metrics["mean_error_max"] < 1
    assert 0.4 < metrics["sd_ratio_min"] <= metrics["sd_ratio_max"] < 2.5
    with xarray.open_datatree(folder / "draws.nc", engine="h5netcdf") as data:
        draws = data["posterior"]["z"].to_numpy()
    assert draws.shape == (1, 20_000, 4)
    assert np.isfinite(draws).all()
    key = Plan.make(find_task("banana"), "civi", "default", 0, None, []).keys(0)[3]
    loaded = civi.load(folder / "posterior.civi")
    np.testing.assert_array_equal(loaded.sample(key, 20_000), draws[0])


def test_resume_with_another_target_shows_the_difference(failing, folder, table):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    message = failing(*arguments(table, folder, target="smoker"), "--resume")
    assert "(target: y -> smoker): resume with the same ones" in message
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["regression"], "task 'regression' needs your own data: --data FILE --target COLUMN"),
        (["regression", "--data", "{table}"], "task 'regression' needs your own data: --data FILE --target COLUMN"),
        (["banana", "--data", "{table}"], "task 'banana' has its own data: --data, --target, --hold-out, --stream and"),
        (["nodal", "--hold-out", "0.2"], "task 'nodal' has its own data"),
        (["regression", *OWN[:3], "yy"], "unknown target column 'yy': did you mean 'y'?"),
        (["regression", "--data", "nowhere.csv", "--target", "y"], "there is no file nowhere.csv: check the path"),
        (
            ["regression", "--data", "{table}", "--target", "y", "--recipe", "paper"],
            "no settings for task 'regression'",
        ),
        (["regresion"], "unknown task 'regresion': did you mean 'regression'?"),
    ],
)
def test_a_wrong_option_is_one_line_and_writes_nothing(failing, tmp_path, monkeypatch, table, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in failing("run", *(option.format(table=table) for option in options))
    assert list(tmp_path.iterdir()) == []


def test_a_batch_for_a_toy_is_refused_before_anything_is_written(failing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = failing("run", "banana", "--set", "problem.batch=5", *SMALL, alone=False)
    assert line.startswith("problem.batch needs a target with rows of data")
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_reference_for_many_rows(monkeypatch, table, tmp_path):
    """NUTS must not be called."""

    def never(*_):
        raise AssertionError("NUTS ran")

    monkeypatch.setattr(Nuts, "cached", never)
    task = replace(find_task("regression", data=table, target="y", hold_out=0.25), reference_rows=44)
    draws = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    assert task.source().rows == 45
    found = task.measure(draws, None)
    assert found["reference"] == "none, as there are more than 44 rows"
    assert "sliced_wasserstein" not in found
    assert 0 <= found["test_accuracy"] <= 1
    with pytest.raises(AssertionError, match="NUTS ran"):
        replace(task, reference_rows=45).measure(draws, None)


def test_test_rows_are_not_trained_on(table):
    task = find_task("regression", data=table, target="y", hold_out=0.25)
    whole = find_task("regression", data=table, target="y")
    assert (task.source().rows, whole.source().rows, task.source().dim) == (ROWS - TEST_ROWS, ROWS, 4)
    checksum = hashlib.sha256(table.read_bytes()).hexdigest()
    assert whole.options == {"data": str(table), "sha256": checksum, "target": "y", "hold_out": 0.0}


# Table "Experimental settings for regression": iterations, K1, K2, noise dimension, C_alpha of both groups, C_beta,
# C_gamma of both groups.
PAPER = {
    "spam": (600, 50, 500, (1.5e-4, 0.2), 0.999, (0.7, 0.6)),
    "nodal": (600, 200, 2000, (1.7e-4, 1.7e-4), 0.99, (0.75, 0.85)),
    "nodal-25": (600, 200, 2000, (1.7e-4, 1.7e-4), 0.99, (0.75, 0.85)),
    "waveform": (3000, 100, 1000, (3e-4, 2.5e-4), 0.999, (0.85, 0.85)),
}


@pytest.mark.parametrize("task", PAPER)
def test_paper_has_the_constants_of_its_table(task):
    settings = settings_for(task, "civi", "paper")
    steps, outer, inner, c_alpha, c_beta, c_gamma = PAPER[task]
    solver, family = settings.solver, settings.family
    assert (solver.steps, solver.samples.outer, solver.samples.inner) == (steps, outer, inner)
    assert (settings.problem, solver.samples.growth) == (ProblemSettings(), 0.0)
    assert solver.tracker == Extrapolated(beta=c_beta, decay=0.0)
    assert type(solver.update) is CiviAdam
    assert tuple(value_for(solver.update.c_alpha, group) for group in ("mixing", "scale")) == c_alpha
    assert tuple(value_for(solver.update.c_gamma, group) for group in ("mixing", "scale")) == c_gamma
    assert (solver.objective, solver.output) == (LogTrick(inner_mean="plain", weigh="ratio"), "last")
    assert (family.noise_dim, family.noise_scale) == (10 if task == "waveform" else 3, 1.0)
    assert settings.changed(None, ["family.noise_scale=10"]).family.noise_scale == 10
    assert (family.hidden, family.conditional, family.activation) == ((200, 200), "cholesky", "relu")
    assert settings.pilot == NoPilot()


@pytest.mark.parametrize("task", ["spam", "nodal", "nodal-25", "waveform", "regression"])
def test_default_has_a_pilot_where_the_family_can_learn_correlations(task):
    pilots = {solver: settings_for(task, solver, "default").pilot for solver in SOLVERS}
    assert {solver for solver, pilot in pilots.items() if pilot == NoPilot()} == {"mfvb"}
    assert {"nuts"} == set(METHODS) - set(pilots)
    assert settings_for(task, "nuts", "default") == Nuts()
    in_laplace = {solver for solver, pilot in pilots.items() if pilot == Laplace()}
    assert in_laplace == (set(SOLVERS) - {"mfvb"} if task == "regression" else {"pvi", "divi", "sivi-sm"})


@pytest.mark.parametrize("task", ["spam", "nodal", "nodal-25", "waveform"])
def test_default_has_the_family_of_civi_fit_and_the_same_samples_for_every_solver(task):
    fixed = ("mfvb", "pvi", "divi", "sivi-sm")
    framed = {solver: settings_for(task, solver, "default") for solver in SOLVERS if solver not in fixed}
    assert framed["civi"].family == fit_settings("civi", find_task(task).source().dim).family
    assert {settings.solver.steps for settings in framed.values()} == {3000}
    assert {settings.solver.samples.outer for settings in framed.values()} == {300}
    inner = {solver: settings.solver.samples.inner for solver, settings in framed.items()}
    assert inner == dict.fromkeys(framed, 60) | {"fullrank": 1}


def test_toys_have_no_pilot():
    assert all(settings_for("banana", solver, "default").pilot == NoPilot() for solver in SOLVERS)


def test_regressions_are_ranked_and_measured_alike():
    tasks = [find_task(name) for name in ("spam", "nodal", "nodal-25", "waveform")]
    assert {task.primary_metric for task in tasks} == {"sliced_wasserstein"}
    assert {task.objective_is_kl for task in tasks} == {False}
