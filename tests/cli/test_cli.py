"""The command line without a run: listings, and errors in one line that change no file."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from civi.cli import main as cli
from civi.experiment.plan import Plan
from civi.experiment.recipes import METHODS
from civi.experiment.tasks import OWN_DATA, TASKS
from civi.files import write_json


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def content(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, with the bytes of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def old_run(folder: Path) -> dict[str, bytes | None]:
    """A folder with all files of a run that the command line checks."""
    (folder / "checkpoints" / "6").mkdir(parents=True)
    (folder / "figures").mkdir()
    write_json(folder / "config.json", Plan.make("banana", "civi", "default", 0, 6, []).described())
    rest = ("posterior.civi", "figures/density.png", "checkpoints/6/data", "notes.txt")
    for name in ("metrics.json", "history.csv", "draws.nc", *rest):
        (folder / name).write_bytes(f"old {name}".encode())
    return content(folder)


def test_tasks_and_solvers_are_listed_one_to_a_line_with_a_summary():
    tasks = CliRunner().invoke(cli.app, ["tasks"])
    assert tasks.exit_code == 0
    assert [line.split(maxsplit=1) for line in tasks.stdout.splitlines()] == [
        *([name, entry.summary] for name, entry in TASKS.items()),
        *([name, summary] for name, summary in OWN_DATA.items()),
    ]
    assert {"two-modal", "star", "banana"} <= set(TASKS)
    solvers = CliRunner().invoke(cli.app, ["solvers"])
    assert solvers.exit_code == 0
    assert [line.split()[0] for line in solvers.stdout.splitlines()] == list(METHODS)
    assert all(len(line.split()) > 2 for line in solvers.stdout.splitlines())


def test_help_names_the_commands():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert all(f" {command} " in result.stdout for command in ("run", "tasks", "solvers"))


SET = ("--set",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["banan"], "unknown task 'banan': did you mean 'banana'? known: "),
        (["banana", "--solver", "cvii"], "unknown solver 'cvii': did you mean 'civi'? known: "),
        (["banana", "--recipe", "papre"], "unknown recipe 'papre': did you mean 'paper'? known: "),
        (["banana", "--steps", "0"], "steps must be at least 1, not 0"),
        (["banana", "--seed", "-1"], "seed must be from 0 to 2147483647, not -1"),
        (["banana", "--checkpoint-every", "0"], "--checkpoint-every must be at least 1, not 0"),
        (
            ["banana", "--force", "--resume"],
            "--force starts a new run, --resume continues one: give only one",
        ),
        (["banana", *SET, "samples.outer=0"], "samples.outer (K1) must be at least 1, not 0"),
        (["banana", *SET, "samples.inner=0"], "samples.inner (K2) must be at least 1, not 0"),
        (["banana", *SET, "tracker=ring", *SET, "tracker.beta=0"], "tracker.beta must be in (0, 1], not 0.0"),
        (["banana", *SET, "tracker=ring", *SET, "tracker.beta=1.5"], "tracker.beta must be in (0, 1], not 1.5"),
        (["star", "--recipe", "paper", *SET, "tracker.beta=nan"], "tracker.beta must be finite, not 'nan'"),
        (
            ["banana", *SET, "pool.size=10", *SET, "pool.chunk=20", *SET, "samples.outer=20"],
            "pool.chunk (20) is larger than the pool (10): make the chunk smaller",
        ),
        (["banana", *SET, "pool.size=10"], "pool.chunk (128) is larger than the pool (10)"),
        (["banana", *SET, "tracker.stesp=3"], "unknown setting 'tracker.stesp': did you mean 'tracker.steps'?"),
        (["banana", *SET, "samples"], "'samples' is not of the form name=value"),
        (["banana", *SET, "family.hidden=a"], "family.hidden must be comma-separated whole numbers, not 'a'"),
        (["banana", *SET, "family.scale=0"], "family.scale must be positive and at most 1e+12, not 0"),
        (["banana", *SET, "family.hiden=3"], "unknown setting 'family.hiden': did you mean 'family.hidden'?"),
        (["banana", *SET, "family=3"], "'family' is a group of settings: set one of family.mixing, family.hidden"),
        (["banana", *SET, "family.hidden=0"], "the widths in family.hidden must be at least 1, not (0,)"),
        (["banana", *SET, "family.noise_dim=0"], "family.noise_dim must be at least 1, not 0"),
        (["banana", *SET, "family.noise_scale=-1"], "family.noise_scale must be positive and at most 1e+12, not -1"),
        (["banana", *SET, "family.activation=rellu"], "unknown activation 'rellu': did you mean 'relu'?"),
        (["banana", *SET, "update.clip=-1"], "update.clip must be positive, or none for no clipping, not -1.0"),
        (["banana", *SET, "family.conditional=scald"], "unknown conditional 'scald': did you mean 'scaled'?"),
        (["banana", "--resume"], "there is no run in runs/banana-civi-default-0 to resume: run without --resume"),
    ],
)
def test_a_wrong_option_is_one_line_and_writes_nothing(failing, tmp_path, arguments, message):
    assert message in failing("run", *arguments)
    assert content(tmp_path) == {}


def test_another_run_in_the_folder_keeps_every_byte(failing, tmp_path):
    before = old_run(tmp_path / "old")
    message = failing("run", "banana", "--out", "old")
    files = "config.json, metrics.json, history.csv, draws.nc, posterior.civi, figures, checkpoints"
    assert message.startswith(f"old already holds a run ({files}): ")
    assert message.endswith("choose another --out, resume with --resume, or replace it with --force")
    assert content(tmp_path / "old") == before


def test_one_file_of_a_run_is_enough_to_refuse_the_folder(failing, tmp_path):
    (tmp_path / "history.csv").write_text("mine")
    assert failing("run", "banana", "--out", ".").startswith(". already holds a run (history.csv):")
    assert content(tmp_path) == {"history.csv": b"mine"}


def test_force_with_a_wrong_setting_keeps_the_old_run(failing, tmp_path):
    before = old_run(tmp_path / "old")
    failing("run", "banana", "--out", "old", "--force", "--set", "samples.inner=0")
    failing("run", "banana", "--out", "old", "--force", "--steps", "0")
    assert content(tmp_path / "old") == before


@pytest.mark.parametrize("out", ["file", "file/below", "file/far/below"])
def test_a_folder_that_cannot_be_made_is_an_error(failing, tmp_path, out):
    (tmp_path / "file").write_text("a regular file")
    assert failing("run", "banana", "--out", out).startswith(f"cannot write to {out}: ")
    assert content(tmp_path) == {"file": b"a regular file"}


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (["--seed", "1"], "(seed: 0 -> 1)"),
        (["--steps", "7"], "(settings.steps: 6 -> 7)"),
        (["--set", "tracker.steps=3"], "(settings.tracker.steps: 8 -> 3)"),
        (["--set", "family.hidden=4,5"], "(settings.family.hidden: [50, 50] -> [4, 5])"),
        (["--set", "tracker=none"], "(settings.tracker.kind: bank -> none; settings.tracker.steps: 8 -> None)"),
    ],
)
def test_resume_with_other_settings_shows_the_difference(failing, tmp_path, options, difference):
    before = old_run(tmp_path / "old")
    message = failing("run", "banana", "--steps", "6", "--out", "old", "--resume", *options)
    assert message == f"old was started with different settings {difference}: resume with the same ones"
    assert content(tmp_path / "old") == before


def test_resume_of_a_run_of_an_older_format_is_one_clear_line(failing, tmp_path):
    old_run(tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    del config["format"]
    (tmp_path / "old" / "config.json").write_text(json.dumps(config | {"settings": {"inner_mean": "safe"}}))
    before = content(tmp_path / "old")
    message = failing("run", "banana", "--steps", "6", "--out", "old", "--resume")
    assert message == (
        "old holds a run of format 1, but this version of civi resumes format 2: resume it with the version that "
        "started it, or start again with --force"
    )
    assert content(tmp_path / "old") == before


def test_resume_of_a_run_without_a_readable_config_is_an_error(failing, tmp_path):
    (tmp_path / "config.json").write_text("{ half")
    assert failing("run", "banana", "--out", ".", "--resume").startswith("config.json cannot be read: ")
    assert content(tmp_path) == {"config.json": b"{ half"}
