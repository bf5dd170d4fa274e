"""Runs on many devices give the result of one device, and a run whose process dies can be resumed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import civi
import civi.experiment.run
import many_devices
from civi.errors import SettingError
from civi.experiment.plan import Plan
from civi.experiment.tasks import TASKS
from civi.parallel.mesh import make_mesh
from many_devices import EVERY, STEPS, TOY, fit, plan
from saved_runs import arrays

PROCESS_LOST = "civi: error: a process of this run has failed: restart all processes with --resume"
# Relative to an array's largest number, a different order of summation changes 4e-6 in 200 steps; half of the samples
# change more than 0.1.
DRIFT = 1e-4


def begin(*arguments: str, devices: int = 1, **environment: str) -> subprocess.Popen[str]:
    """Start many_devices.py in a separate process, with the same fast compilation as in this one."""
    flags = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"}
    script = [sys.executable, str(Path(many_devices.__file__)), *arguments]
    env = {**os.environ, **flags, **environment}
    return subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def two(folder: Path, *options: str, die_at: int | None = None, **both: str) -> list[subprocess.Popen[str]]:
    """Two processes that connect on a free port; `both` is their environment; the second one dies at step `die_at`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [part for setting in TOY for part in ("--set", setting)]
    chosen = ["--steps", str(STEPS), "--checkpoint-every", str(EVERY), "--out", str(folder), *options]
    meet = ["--distributed", "--coordinator", f"127.0.0.1:{port}", "--processes", "2"]
    dying = {} if die_at is None else {"DIE_AT": str(die_at)}
    return [
        begin(
            "run",
            "banana",
            "--no-report",
            *settings,
            *chosen,
            *meet,
            "--process",
            str(i),
            **both,
            **(dying if i == 1 else {}),
        )
        for i in range(2)
    ]


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, error = process.communicate(timeout=240)
    finally:
        process.kill()
    return process.returncode, out, error


def drift(folder: Path, other: Path) -> float:
    """The largest difference between the states of two runs, relative to the largest number of each array.

    Arrays of different shapes are not compared.
    """
    one, two = ({k: v for k, v in arrays(path, STEPS).items() if k.startswith("state.")} for path in (folder, other))
    assert one.keys() == two.keys()
    comparable = [name for name in one if one[name].size and one[name].shape == two[name].shape]
    pairs = [(one[name].astype(float), two[name].astype(float)) for name in comparable]
    return max(np.abs(a - b).max() / (np.abs(a).max() + 1e-30) for a, b in pairs)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two processes that do an undisturbed run, then the same run, in which one dies; and a process with four devices.

    All run concurrently, because most of the time is compilation.
    """
    folder = tmp_path_factory.mktemp("distributed")
    four = begin("four", str(folder), devices=4)
    pair = two(folder / "broken", die_at=2 * EVERY, UNDISTURBED=str(folder / "undisturbed"))
    yield folder, pair, four
    for process in (four, *pair):
        process.kill()


@pytest.fixture(scope="module")
def alone(tmp_path_factory, runs):
    """The same runs on one device, in this process."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("banana", "mnist"):
            patch.setitem(TASKS, name, TASKS[name])
        patch.setattr(civi.experiment.run, "draw_history", civi.experiment.run.draw_history)
        many_devices.without_measures()
        fit(plan("banana"), folder / "banana")
        fit(plan("banana", 0, "samples.outer=4"), folder / "half")
        fit(plan("mnist"), folder / "images")
    return folder


@pytest.fixture(scope="module")
def broken(runs):
    """How both processes ended, the seconds the survivor took after the victim, and the last checkpoint."""
    folder, (survivor, victim), _ = runs
    dead = end(victim)
    begun = time.monotonic()
    left, seconds = end(survivor), time.monotonic() - begun
    last = max(int(path.name) for path in (folder / "broken" / "checkpoints").iterdir() if path.name.isdigit())
    return dead, left, seconds, last


@pytest.fixture(scope="module")
def undisturbed(runs, broken):
    """The folder of the undisturbed run of two processes."""
    return runs[0] / "undisturbed"


@pytest.fixture(scope="module")
def restarted(runs, broken):
    """The folder of the broken run after a restart of both processes, and the output of each."""
    ends = [end(process) for process in two(runs[0] / "broken", "--resume")]
    assert [(code, error) for code, _, error in ends] == [(0, "")] * 2
    return runs[0] / "broken", [out for _, out, _ in ends]


@pytest.fixture(scope="module")
def four(runs):
    """The folder of the finished runs on four devices."""
    folder, _, process = runs
    code, _, error = end(process)
    assert code == 0, error
    return folder


def test_two_processes_end_where_one_does(undisturbed, alone):
    assert drift(undisturbed, alone / "banana") < DRIFT


def test_half_of_the_samples_end_elsewhere(undisturbed, alone):
    assert drift(undisturbed, alone / "half") > 1000 * DRIFT


def test_only_the_first_process_speaks(restarted):
    folder, (first, second) = restarted
    assert first.splitlines()[-1].startswith(f"finished {STEPS} steps; files are in {folder}")
    assert "banana with civi, recipe default" in " ".join(first.split())
    assert second == ""


def test_a_run_of_many_processes_leaves_the_files_of_one(undisturbed, restarted, alone):
    names = {"config.json", "metrics.json", "history.csv", "draws.nc", "posterior.civi", "figures", "checkpoints"}
    for folder in (undisturbed, restarted[0], alone / "banana"):
        assert {path.name for path in folder.iterdir()} == names
    assert json.loads((undisturbed / "metrics.json").read_text())["steps"] == STEPS


def test_the_posterior_of_many_devices_is_saved_as_that_of_one(undisturbed, four, alone):
    """The parameters are copied back to the leader's own device and equal those of a run on one device."""
    key = jax.random.key(0)
    expected = civi.load(alone / "banana" / "posterior.civi").sample(key, 50)
    for folder in (undisturbed, four / "two-by-two"):
        np.testing.assert_allclose(civi.load(folder / "posterior.civi").sample(key, 50), expected, atol=1e-3)
    assert np.abs(civi.load(alone / "half" / "posterior.civi").sample(key, 50) - expected).max() > 0.01
    x = jax.random.bernoulli(key, shape=(4, 12)).astype(float)
    images = [civi.load(folder / "images" / "posterior.civi").given(x).sample(key, 4) for folder in (four, alone)]
    np.testing.assert_allclose(*images, atol=1e-3)


def test_outer_and_inner_samples_over_four_devices_end_where_one_does(four, alone):
    assert drift(four / "two-by-two", alone / "banana") < DRIFT


def test_rows_of_data_over_four_devices_end_where_one_does(four, alone):
    assert drift(four / "images", alone / "images") < DRIFT


def test_a_step_is_divided_among_the_devices(four):
    facts = json.loads((four / "facts.json").read_text())
    assert facts["part"] == [8, 12]
    assert facts["replicated"]
    reduced = " ".join(facts["all-reduced"])
    assert "u8[8,12]" in reduced
    assert all(f"[{n},12]" in reduced or f"[12,{n}]" in reduced for n in (6, 5))
    assert "f32[2,12]" in facts["program"]
    assert "f32[8,12]" not in facts["program"]


def test_a_process_that_dies_ends_the_run_in_a_line(broken):
    dead, (code, out, error), seconds, last = broken
    assert dead[0] == -signal.SIGKILL
    assert seconds < 60
    assert code > 0
    assert error.startswith(PROCESS_LOST)
    assert len(error.splitlines()) == 1
    assert "Traceback" not in out
    assert last < STEPS


def test_a_restart_ends_where_the_run_would_have_ended(undisturbed, restarted):
    expected, got = arrays(undisturbed, STEPS), arrays(restarted[0], STEPS)
    assert expected.keys() == got.keys()
    assert [name for name in expected if expected[name].tobytes() != got[name].tobytes()] == []


ADDRESS = ("--coordinator", "127.0.0.1:4000", "--processes", "2", "--process", "1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ADDRESS[:2], "--coordinator, --processes and --process go together: give --processes and --process too"),
        (ADDRESS[2:], "--coordinator, --processes and --process go together: give --coordinator too"),
        ((*ADDRESS[:4], "--process", "2"), "--process must be 0 to 1, as there are 2 processes, not 2"),
        ((*ADDRESS[:2], "--processes", "0", "--process", "0"), "--processes must be at least 1, not 0"),
        (
            ("--coordinator", "here:70000", *ADDRESS[2:]),
            "--coordinator must be HOST:PORT with a port from 1 to 65535, not 'here:70000'",
        ),
        (
            ("--coordinator", "4000", *ADDRESS[2:]),
            "--coordinator must be HOST:PORT with a port from 1 to 65535, not '4000'",
        ),
    ],
)
def test_an_address_that_cannot_be_is_refused(options, message, failing, tmp_path):
    assert failing("run", "banana", "--out", str(tmp_path / "run"), "--distributed", *options) == message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options", [ADDRESS, ("--inner-devices", "2"), ("--whole-data",)])
def test_options_of_many_devices_need_the_one_that_asks_for_them(options, failing, tmp_path):
    message = failing("run", "banana", "--out", str(tmp_path / "run"), *options)
    assert message.endswith("need --distributed: add it")


def test_devices_that_do_not_divide_are_refused():
    with pytest.raises(SettingError, match=r"--inner-devices must divide the number of devices \(1\), not 2"):
        make_mesh(2)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (
            {"outer": 3, "inner": 1},
            r"samples.outer \(8\) must be a multiple of the 3 devices that share it, for example 9",
        ),
        (
            {"outer": 2, "inner": 4},
            r"samples.inner \(6\) must be a multiple of the 4 devices that share it, for example 8",
        ),
    ],
)
def test_samples_that_do_not_divide_are_refused(devices, message):
    with pytest.raises(SettingError, match=message):
        plan("banana").settings.check_devices(devices)


def test_samples_that_divide_are_not_refused_and_nuts_is():
    plan("banana").settings.check_devices({"outer": 4, "inner": 2})
    with pytest.raises(SettingError, match="nuts runs on one device: leave --distributed out"):
        Plan.make("banana", "nuts", "default", 0, None, []).settings.check_devices({"outer": 2, "inner": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--distributed found no cluster and only one device: start it under SLURM, Open MPI or Kubernetes, "),
        ((*ADDRESS, "--wait", "2"), "the processes did not connect at 127.0.0.1:4000 within 2 s: start all of them "),
    ],
)
def test_a_process_that_meets_no_other_says_so_in_a_line(options, message, tmp_path):
    code, out, error = end(begin("run", "banana", "--out", str(tmp_path / "run"), "--distributed", *options))
    assert error.startswith(f"civi: error: {message}")
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert not (tmp_path / "run").exists()
