"""The files of `civi run`: names and values that other tools read."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib.image import imread
from typer.testing import CliRunner

import civi
import civi.experiment.run
from civi.cli import main as cli
from civi.experiment.plan import Plan
from civi.experiment.report import toy_figure
from civi.experiment.tasks import TASKS
from civi.inference.posterior import SemiImplicitPosterior
from civi.solver import Info
from small_tasks import Ready, small_toy

STEPS = 60
TINY = {"samples.outer": 8, "samples.inner": 5, "tracker.steps": 2, "family.hidden": 4}
FILES = ("config.json", "metrics.json", "history.csv", "draws.nc", "posterior.civi")
FAKE = (*FILES, "figures/old.png", "checkpoints/99/data")


def run(folder: Path, *options: str, **settings: float) -> str:
    chosen = [part for name, value in (TINY | settings).items() for part in ("--set", f"{name}={value}")]
    arguments = [
        "run",
        "banana",
        "--no-report",
        "--steps",
        str(STEPS),
        "--checkpoint-every",
        "20",
        "--out",
        str(folder),
        *chosen,
    ]
    result = CliRunner().invoke(cli.app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def read(path: Path) -> dict:
    """Parse JSON; NaN and Infinity are errors."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {path}")

    return json.loads(path.read_text(), parse_constant=refuse)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "history.csv").open() as file:
        return list(csv.DictReader(file))


def draws(folder: Path):
    with xarray.open_datatree(folder / "draws.nc", engine="h5netcdf") as data:
        return data["posterior"]["z"].to_numpy(), dict(data.attrs)


def without(names: str, values: dict) -> dict:
    return {name: value for name, value in values.items() if name not in names.split()}


@pytest.fixture(scope="module", autouse=True)
def with_fewer_samples():
    """Use the usual measures and figures, with fewer samples and a coarser grid."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "banana", Ready(small_toy("banana")))
        patch.setattr(toy_figure, "GRID", 30)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "first"


@pytest.fixture(scope="module")
def output(folder):
    """The standard output of the first run, which fills `folder`."""
    return run(folder)


@pytest.fixture(scope="module")
def without_figures(output):
    """Replacements for the runs after the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(civi.experiment.run, "draw_history", lambda *_: None)
        patch.setattr(type(TASKS["banana"].task), "draw", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def forced(folder, without_figures):
    """The same run with --force, in a folder that contains another run and an unrelated file."""
    other = folder.parent / "forced"
    for name in (*FAKE, "notes.txt", "mine/notes.txt"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text("old")
    run(other, "--force")
    return other


@pytest.mark.usefixtures("output")
class TestFiles:
    def test_the_folder_holds_the_files_of_the_contract_and_nothing_else(self, folder):
        assert {path.name for path in folder.iterdir()} == {*FILES, "figures", "checkpoints"}
        assert {path.name for path in (folder / "checkpoints").iterdir()} == {"20", "40", "60"}

    def test_config_names_the_run_and_every_setting(self, folder):
        config = read(folder / "config.json")
        assert {name: config[name] for name in ("task", "solver", "recipe", "seed")} == {
            "task": "banana",
            "solver": "civi",
            "recipe": "default",
            "seed": 0,
        }
        assert config["civi"] == civi.__version__
        settings = config["settings"]
        assert settings["steps"] == STEPS
        assert (settings["samples"]["outer"], settings["samples"]["inner"]) == (8, 5)
        assert settings["tracker"] == {"kind": "bank", "steps": 2}
        assert settings["family"]["hidden"] == [4]

    def test_metrics_have_the_names_of_the_contract_and_finite_numbers(self, folder):
        metrics = read(folder / "metrics.json")
        names = {"task": "banana", "solver": "civi", "recipe": "default", "seed": 0, "steps": STEPS}
        assert {name: metrics[name] for name in names} == names
        assert (metrics["status"], metrics["skipped_steps"]) == ("finished", 0)
        numbers = ("seconds", "seconds_per_step", "neg_elbo", "neg_elbo_se", "kl", "kl_se", "kl_lower")
        assert all(type(metrics[name]) is float and math.isfinite(metrics[name]) for name in numbers)
        assert metrics["seconds"] >= metrics["seconds_per_step"] * STEPS > 0
        assert metrics["neg_elbo_se"] > 0
        assert metrics["kl"] == metrics["neg_elbo"] >= metrics["kl_lower"]

    def test_history_has_a_row_for_every_step(self, folder):
        history = rows(folder)
        assert list(history[0]) == ["step", *Info._fields, "skipped", "seconds"]
        assert {"neg_elbo", "weight_mean", "weight_sd", "gradient_norm"} <= set(history[0])
        table = {name: np.array([float(row[name]) for row in history]) for name in history[0]}
        assert table["step"].tolist() == list(range(1, STEPS + 1))
        assert table["skipped"].tolist() == [0] * STEPS
        assert (np.diff(table["seconds"]) > 0).all()
        assert table["seconds"][0] > 0
        assert len(np.unique(table["neg_elbo"])) == STEPS
        assert (table["gradient_norm"] > 0).all()

    def test_draws_are_one_chain(self, folder):
        values, attributes = draws(folder)
        assert values.shape == (1, 4000, 2)
        assert np.isfinite(values).all()
        assert len(np.unique(values[0], axis=0)) == 4000
        assert (attributes["task"], attributes["solver"], attributes["seed"]) == ("banana", "civi", 0)

    def test_the_phases_of_the_training_are_all_of_its_seconds(self, folder):
        phases = civi.load(folder / "posterior.civi").phases
        assert sum(phases.values()) == pytest.approx(read(folder / "metrics.json")["seconds"], rel=1e-6)

    def test_the_posterior_file_draws_the_draws_of_the_run_bit_for_bit(self, folder):
        loaded = civi.load(folder / "posterior.civi")
        assert type(loaded) is SemiImplicitPosterior
        key = Plan.make("banana", "civi", "default", 0, None, []).keys(0)[3]
        np.testing.assert_array_equal(loaded.sample(key, 4000), draws(folder)[0][0])
        assert loaded.message == f"finished {STEPS} steps"
        history = rows(folder)
        for name in history[0]:
            written = np.array([row[name] for row in history], float)
            np.testing.assert_allclose(written, loaded.history[name], rtol=1e-8)

    @pytest.mark.parametrize("name", ["density", "history"])
    def test_figures_show_something(self, folder, name):
        image = imread(folder / "figures" / f"{name}.png")
        red, green, blue = (255 * image[..., :3]).astype(int).reshape(-1, 3).T
        assert len(np.unique((256 * red + green) * 256 + blue)) > 100
        assert 0.02 < (image[..., :3].min(axis=2) < 0.9).mean() < 0.9

    def test_the_table_and_the_last_line_say_what_happened(self, folder, output):
        metrics = read(folder / "metrics.json")
        lines = [line.strip("│ ").split("│") for line in output.splitlines() if line.startswith("│")]
        table = {name.strip(): value.strip() for name, value in (line for line in lines if len(line) == 2)}
        assert table["status"] == "finished"
        assert "tracker.steps" not in table
        assert table["kl"].split(" ± ") == [f"{metrics['kl']:.4f}", f"{metrics['kl_se']:.4f}"]
        ending = f"finished {STEPS} steps; files are in {folder}, figures are in {folder}/figures"
        assert output.splitlines()[-1] == ending


def test_a_run_that_diverges_says_so_and_writes_no_nan(tmp_path):
    """At locations of 1e10 the log density of the banana is -inf in single precision."""
    output = run(tmp_path, **{"family.spread": 1e10})
    metrics = read(tmp_path / "metrics.json")
    assert (metrics["status"], metrics["steps"], metrics["skipped_steps"]) == ("stopped", 50, 50)
    assert metrics["message"].startswith("stopped at step 50 of 60: 50 steps in a row were not finite")
    assert all(metrics[name] is None for name in ("neg_elbo", "neg_elbo_se", "kl", "kl_se", "kl_lower"))
    text = (tmp_path / "history.csv").read_text().lower()
    assert "nan" not in text
    assert "inf" not in text
    history = rows(tmp_path)
    assert [row["skipped"] for row in history] == ["1"] * 50
    assert [row["neg_elbo"] for row in history] == [""] * 50
    assert output.splitlines()[-1].startswith(metrics["message"])
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"density.png", "history.png"}


def test_the_same_seed_gives_the_same_numbers(folder, forced):
    times = "seconds compile_seconds seconds_per_step"
    assert without(times, read(forced / "metrics.json")) == without(times, read(folder / "metrics.json"))
    assert [without("seconds", row) for row in rows(forced)] == [without("seconds", row) for row in rows(folder)]
    assert read(forced / "config.json") == read(folder / "config.json")
    np.testing.assert_array_equal(draws(forced)[0], draws(folder)[0])


def test_force_replaces_the_files_of_a_run_and_nothing_else(forced):
    assert (forced / "notes.txt").read_text() == "old"
    assert (forced / "mine" / "notes.txt").read_text() == "old"
    assert not (forced / "figures" / "old.png").exists()
    assert {path.name for path in (forced / "checkpoints").iterdir()} == {"20", "40", "60"}


def test_another_seed_gives_other_numbers(folder, forced):
    other = folder.parent / "other"
    run(other, "--seed", "1")
    assert read(other / "config.json")["seed"] == 1
    ours, theirs = read(folder / "metrics.json"), read(other / "metrics.json")
    assert (ours["seed"], theirs["seed"]) == (0, 1)
    assert ours["kl"] != theirs["kl"]
    assert all(a["neg_elbo"] != b["neg_elbo"] for a, b in zip(rows(folder), rows(other), strict=True))
    assert not np.array_equal(draws(folder)[0], draws(other)[0])
