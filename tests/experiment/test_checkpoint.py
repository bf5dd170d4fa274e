"""A run that was interrupted, killed or damaged and then resumed is bitwise identical to an undisturbed run."""

import csv
import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from typer.testing import CliRunner

import civi.experiment.run
import civi.experiment.training
from civi.cli import main as cli
from civi.errors import OutputError
from civi.experiment.checkpoint import Checkpoints
from civi.experiment.tasks import TASKS
from civi.problem import PosteriorProblem
from civi.progress import TrainingBar
from civi.solver import CompositionalSolver
from civi.solver.loop import empty_history, start
from civi.update import Samples
from linear_gaussian import gaussian_target, linear_family
from saved_runs import arrays
from small_tasks import Ready, ToyOnly

STEPS, EVERY = 60, 20
TINY = ["samples.outer=8", "samples.inner=5", "tracker.steps=2", "family.hidden=4"]

# SIGKILL arrives when the checkpoint of step 40 is completely written, just before it gets its final name.
KILLED = """
import os, signal, sys

def watch(event, details):
    if event == "os.rename" and str(details[1]).endswith("checkpoints/40"):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
from civi.cli.main import main
main()
"""


def command(folder: Path, *options: str) -> list[str]:
    settings = [part for setting in TINY for part in ("--set", setting)]
    chosen = ["--steps", str(STEPS), "--checkpoint-every", str(EVERY), "--out", str(folder)]
    return ["run", "banana", "--no-report", *settings, *chosen, *options]


def invoke(folder: Path, *options: str):
    return CliRunner().invoke(cli.app, command(folder, *options))


def kept(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoints").iterdir() if path.name.isdigit())


def history(folder: Path, *without: str) -> list[dict[str, str]]:
    with (folder / "history.csv").open() as file:
        return [{name: value for name, value in row.items() if name not in without} for row in csv.DictReader(file)]


def damage(folder: Path, step: int) -> None:
    for path in (folder / "checkpoints" / str(step)).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:5])


def replace_content(folder: Path, step: int) -> None:
    """Write a complete checkpoint that Orbax can read, but with one number changed."""
    item = (folder / "checkpoints" / str(step) / "run").resolve()
    with ocp.StandardCheckpointer() as checkpointer:
        content = checkpointer.restore(item)
        content["history"]["neg_elbo"] = np.asarray(content["history"]["neg_elbo"]) + 1.0
        checkpointer.save(item, content, force=True)


def lose_item(folder: Path, step: int) -> None:
    shutil.rmtree(folder / "checkpoints" / str(step) / "run")


def assert_same_end(folder: Path, undisturbed: Path) -> None:
    expected, got = arrays(undisturbed, STEPS), arrays(folder, STEPS)
    assert expected.keys() == got.keys()
    differing = [name for name in expected if expected[name].tobytes() != got[name].tobytes()]
    assert differing == []
    assert history(folder, "seconds") == history(undisturbed, "seconds")


@pytest.fixture(scope="module", autouse=True)
def without_measuring():
    """Leave out measures and figures: only the last iterate matters here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "banana", Ready(ToyOnly("banana")))
        patch.setattr(civi.experiment.run, "draw_history", lambda *_: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def victim(tmp_path_factory):
    """A run in a separate process that will be killed; it starts first, so that it compiles concurrently."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    arguments = [sys.executable, "-c", KILLED, *command(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        yield child, folder
        child.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """An uninterrupted run, with different checkpoints from the disturbed runs."""
    folder = tmp_path_factory.mktemp("checkpoint") / "undisturbed"
    assert invoke(folder, "--checkpoint-every", "15").exit_code == 0
    return folder


@pytest.fixture
def interrupt(tmp_path, monkeypatch):
    """Start a run that is interrupted, as by Ctrl-C, once the progress bar shows this step or a later one."""

    def start(step: int) -> tuple[Path, str]:
        def update(self, done: int, neg_elbo: float) -> None:
            if done >= step:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(TrainingBar, "update", update)
            result = invoke(tmp_path / "run")
        assert result.exit_code == 130
        return tmp_path / "run", result.stderr

    return start


def test_the_last_three_checkpoints_are_kept(undisturbed):
    assert kept(undisturbed) == [30, 45, 60]


def test_a_checkpoint_holds_the_history_up_to_its_step(undisturbed):
    assert len(history(undisturbed)) == STEPS
    for step in kept(undisturbed):
        assert arrays(undisturbed, step)["history.step"].tolist() == list(range(1, step + 1))


@pytest.mark.parametrize("step", [1, 40])
def test_an_interrupted_run_goes_on_to_the_same_end(interrupt, undisturbed, step):
    folder, message = interrupt(step)
    assert message == f"civi: interrupted; to resume, repeat the command with --resume (folder {folder})\n"
    assert kept(folder)[-1] == step
    assert not (folder / "metrics.json").exists()
    assert invoke(folder, "--resume").exit_code == 0
    assert_same_end(folder, undisturbed)


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_to_the_same_end(victim, undisturbed):
    child, folder = victim
    errors = child.communicate(timeout=300)[1]
    assert child.returncode == -signal.SIGKILL, errors
    assert kept(folder) == [0, 20]
    assert invoke(folder, "--resume").exit_code == 0
    assert kept(folder) == [20, 40, 60]
    assert_same_end(folder, undisturbed)


def test_a_finished_run_resumed_stays_as_it_is(tmp_path, undisturbed):
    folder = shutil.copytree(undisturbed, tmp_path / "finished")
    assert invoke(folder, "--resume").exit_code == 0
    assert history(folder) == history(undisturbed)
    assert kept(folder) == kept(undisturbed)
    assert_same_end(folder, undisturbed)


@pytest.mark.parametrize("spoil", [damage, replace_content, lose_item])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(interrupt, undisturbed, spoil):
    folder, _ = interrupt(40)
    spoil(folder, 40)
    result = invoke(folder, "--resume")
    assert result.exit_code == 0
    warnings = [line for line in result.stdout.splitlines() if line.startswith("civi: warning: ")]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"civi: warning: checkpoint {folder.resolve()}/checkpoints/40 is damaged and was not used: "
    )
    assert_same_end(folder, undisturbed)
    assert arrays(folder, 40)["history.neg_elbo"].tobytes() == arrays(folder, STEPS)["history.neg_elbo"][:40].tobytes()


def test_an_interrupt_before_the_first_step_leaves_a_checkpoint_of_the_start(tmp_path, monkeypatch, undisturbed):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(civi.experiment.training, "train", interrupted)
        assert invoke(tmp_path / "run").exit_code == 130
    assert kept(tmp_path / "run") == [0]
    result = invoke(tmp_path / "run", "--resume")
    assert result.exit_code == 0, result.output
    assert_same_end(tmp_path / "run", undisturbed)


def test_resume_with_only_damaged_checkpoints_is_an_error_that_names_them(interrupt, failing):
    folder, _ = interrupt(40)
    for step in (0, 20, 40):
        damage(folder, step)
    message = failing(*command(folder, "--resume"), alone=False)
    assert all(f"checkpoint {folder.resolve()}/checkpoints/{step} is damaged" in message for step in (0, 20, 40))
    assert not (folder / "metrics.json").exists()


def test_a_run_that_was_interrupted_before_its_first_checkpoint_starts_at_step_0(tmp_path, undisturbed):
    folder = shutil.copytree(undisturbed, tmp_path / "early")
    for name in ("checkpoints", "figures"):
        shutil.rmtree(folder / name)
    for name in ("metrics.json", "history.csv", "draws.nc", "posterior.civi"):
        (folder / name).unlink()
    result = invoke(folder, "--resume")
    assert result.exit_code == 0, result.output
    assert "starting at step 0" in result.output
    assert (folder / "draws.nc").exists()
    assert history(folder, "seconds") == history(undisturbed, "seconds")


def test_resume_of_a_finished_run_without_a_checkpoint_is_an_error(tmp_path, undisturbed, failing):
    folder = shutil.copytree(undisturbed, tmp_path / "empty")
    shutil.rmtree(folder / "checkpoints")
    before = (folder / "metrics.json").read_bytes()
    message = failing(*command(folder, "--resume"), alone=False)
    assert message.endswith(
        f"there is no checkpoint in {folder.resolve()}/checkpoints to resume from: run without --resume"
    )
    assert (folder / "metrics.json").read_bytes() == before


@pytest.mark.parametrize(
    ("every", "expected"), [(None, [2000, 4000]), (1000, [2000, 3000, 4000])], ids=["by default", "asked for"]
)
def test_by_default_checkpoints_are_also_seconds_apart(tmp_path, every, expected):
    """With 6 ms per step, 1,000 steps take 6 seconds, but checkpoints must be 10 seconds apart."""
    checkpoints = Checkpoints(tmp_path, every)
    problem = PosteriorProblem(linear_family(), gaussian_target())
    state = start(CompositionalSolver(samples=Samples(2, 2)), problem, jax.random.key(0))
    for done in range(500, 4001, 500):
        history = {name: np.array([0.006 * done]) for name in empty_history()}
        checkpoints.save_if_due(state._replace(done=jnp.asarray(done)), history)
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == expected


def test_a_checkpoint_that_cannot_be_written_is_a_line_and_later_ones_are_written(tmp_path, monkeypatch):
    def full(manager: ocp.CheckpointManager, step: int, **_: object) -> None:
        (Path(manager.directory) / f"{step}.orbax-checkpoint-tmp").mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def save(checkpoints: Checkpoints, done: int) -> None:
        checkpoints.save(state._replace(done=jnp.asarray(done)), {name: np.ones(done) for name in empty_history()})

    state = start(
        CompositionalSolver(samples=Samples(2, 2)),
        PosteriorProblem(linear_family(), gaussian_target()),
        jax.random.key(0),
    )
    lines: list[str] = []
    warned, strict = Checkpoints(tmp_path / "a", 1, lines.append), Checkpoints(tmp_path / "b", 1)
    with monkeypatch.context() as patch:
        patch.setattr(ocp.CheckpointManager, "save", full)
        save(warned, 2)
        with pytest.raises(OutputError, match=r"cannot write checkpoint .*/b/2: No space left on device"):
            save(strict, 2)
    assert not [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()]
    save(warned, 3)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["3"]
    line = (
        f"cannot write checkpoint {tmp_path.resolve()}/a/2: No space left on device; the checkpoints before it are kept"
    )
    assert lines == [f"{line}, and training goes on"]
