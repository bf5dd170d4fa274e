"""Faults of whole processes, for faults.py: kills, interrupts and full disks, each followed by a resumed run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5netcdf
import numpy as np
import pyarrow.parquet

CHILD = str(Path(__file__).with_name("faults_child.py"))
LIMIT = 1200
PLAIN = "--no-report"  # faults_child.py draws no figures either; those of the toy are drawn
TINY = ["samples.outer=8", "samples.inner=4", "family.hidden=4"]
IMAGES = ["samples.outer=8", "problem.batch=8", "samples.inner=2", "family.hidden=6,5", "family.decoder_hidden=5"]


def _options(settings: Sequence[str], *others: str) -> list[str]:
    return [*(word for setting in settings for word in ("--set", setting)), *others]


RUNS = {
    "toy": ["run", "banana", *_options([*TINY, "tracker.steps=2"], "--steps", "2000", "--checkpoint-every", "100")],
    "autoencoder": ["run", "mnist", *_options(IMAGES, "--steps", "2000", "--checkpoint-every", "100"), PLAIN],
    "comparison": [
        "compare",
        "banana",
        *_options(TINY, "--solvers", "sivi,nmc-sgd", "--seeds", "2", "--steps", "300"),
        PLAIN,
    ],
}
RUNS["distributed"] = [*RUNS["toy"], PLAIN, "--distributed", "--processes", "2"]
TABLE = ["--data", "TABLE", "--target", "y", "--stream"]
RUNS["streamed"] = [
    *("run", "regression", *TABLE, PLAIN),
    *_options([*TINY, "tracker.steps=2", "problem.batch=20"], "--steps", "2000", "--checkpoint-every", "100"),
]
KILLED = tuple(RUNS)
RUNS["toy with few checkpoints"] = [*RUNS["toy"][:-1], "1000"]
# Programs are compiled once, by the undisturbed run, and loaded by the others.
QUICKLY = {
    "JAX_PLATFORMS": "cpu",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
PHASES = {
    "imports": "_find_and_load",
    "signal handlers": "start",
    "pilot": "run_training",
    "compilation": "backend_compile_and_load",
    "training": "_extend",
    "checkpoint": "_write",
    "measuring": "evaluate",
    "writing draws": "write_draws",
    "figures": "draw_history",
}
SAVED = dict.fromkeys(KILLED, ("checkpoints/0", "checkpoints/[1-9]*0"))
SAVED["comparison"] = ("solvers", "solvers/*.npz")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def begin(arguments: Sequence[str], folder: Path, **variables: str) -> list[subprocess.Popen[str]]:
    """Start the process of a run, or both processes of a distributed one."""
    table = str(folder.parent / "table.parquet")
    command = [sys.executable, CHILD, *(table if word == "TABLE" else word for word in arguments), "--out", str(folder)]
    commands = [command]
    if "--distributed" in arguments:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        commands = [[*command, "--coordinator", f"localhost:{port}", "--process", str(i)] for i in (0, 1)]
    environment = {**os.environ, **QUICKLY, "JAX_COMPILATION_CACHE_DIR": str(folder.parent / "programs"), **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen(command, env=environment, **pipes) for command in commands]  # type: ignore[call-overload]


def end(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """The exit code and the errors of each process; a process that hangs is killed and has the code of SIGKILL."""
    ended = []
    for process in processes:
        try:
            errors = process.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            errors = f"{process.communicate()[1]}\nhung for {LIMIT} s"
        ended.append((process.returncode, errors))
    return ended


def result(folder: Path) -> dict[str, bytes]:
    """Everything that a run computed, without the times."""
    if (folder / "comparison.json").exists():
        return {"comparison": json.dumps(_untimed(json.loads((folder / "comparison.json").read_text()))).encode()}
    found = {"metrics": json.dumps(_untimed(json.loads((folder / "metrics.json").read_text()))).encode()}
    with zipfile.ZipFile(folder / "posterior.civi") as file:
        found |= {
            name: file.read(name) for name in file.namelist() if name.startswith("arrays/") and "second" not in name
        }
    with h5netcdf.File(folder / "draws.nc") as file:
        found["draws"] = np.asarray(file["posterior"]["z"]).tobytes()
    return found


def _untimed(value: object) -> object:
    if isinstance(value, dict):
        return {name: _untimed(item) for name, item in value.items() if "second" not in name}
    return [_untimed(item) for item in value] if isinstance(value, list) else value


def leftovers(folder: Path) -> list[str]:
    """Temporary files and locks, which no finished or interrupted run may leave."""
    return [str(path) for path in folder.rglob("*") if path.name.endswith(".part") or "tmp" in path.name]


def one_line(errors: str, start: str) -> bool:
    """Whether there is exactly one line of errors, with this start."""
    lines = [line for line in errors.splitlines() if not line.startswith("civi: warning:")]
    return len(lines) == 1 and lines[0].startswith(start)


def write_table(path: Path) -> None:
    """A table of 5,000 rows in 50 groups, for runs that read their rows from disk."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5000))
    y = (rng.random(5000) < 1 / (1 + np.exp(-x.sum(0)))).astype(int)
    pyarrow.parquet.write_table(pyarrow.table({"a": x[0], "b": x[1], "y": y}), path, row_group_size=100)


class Runs:
    """Undisturbed runs, made when they are needed, and the runs that are compared with them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        write_table(folder / "table.parquet")
        self._wanted: dict[str, dict[str, bytes]] = {}

    def wanted(self, kind: str) -> dict[str, bytes]:
        """The result of the undisturbed run."""
        if kind not in self._wanted:
            folder = self.folder / f"{kind}-undisturbed"
            if not (folder / "done").exists():
                shutil.rmtree(folder, ignore_errors=True)
                ended = end(begin(RUNS[kind], folder))
                if any(code for code, _ in ended):
                    raise SystemExit(f"the undisturbed run {kind} failed: {ended}")
                (folder / "done").touch()
            self._wanted[kind] = result(folder)
        return self._wanted[kind]

    def resumed(self, kind: str, folder: Path) -> str:
        """Resume a run; empty if its result is that of the undisturbed run, else what went wrong."""
        started = (folder / "config.json").exists() or (folder / "comparison.json").exists()
        ended = end(begin([*RUNS[kind], "--resume" if started else "--force"], folder))
        if any(code for code, _ in ended):
            return f"resuming failed: {ended}"
        found, wanted = result(folder), self.wanted(kind)
        other = [name for name in wanted if found.get(name) != wanted[name]]
        if other or leftovers(folder):
            return f"different: {other[:3]}; left: {leftovers(folder)[:3]}"
        shutil.rmtree(folder)
        return ""


def kills(runs: Runs, kind: str, first: int, count: int) -> Iterator[str]:
    """Kill a run at random moments, every second time after a checkpoint of training; resume it, compare all bits."""
    if first < count:
        runs.wanted(kind)
    for i in range(first, count):
        folder = runs.folder / f"{kind}-killed-{i}"
        shutil.rmtree(folder, ignore_errors=True)
        processes = begin(RUNS[kind], folder)
        _wait_for(folder, SAVED[kind][i % 2], processes)
        _wait(processes, runs.random.expovariate(1 / 2))
        victim = runs.random.choice(processes)
        victim.send_signal(signal.SIGKILL)
        others = [ended for process, ended in zip(processes, end(processes), strict=True) if process is not victim]
        wrong = [text for code, text in others if code < 0 or "Traceback" in text]
        yield f"another process ended badly: {wrong}" if wrong else runs.resumed(kind, folder)


def _wait_for(folder: Path, saved: str, processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until there is a file or folder of this name, or until a process has ended."""
    while not next(folder.glob(saved), None) and all(process.poll() is None for process in processes):
        _wait(processes, 0.05)


def _wait(processes: Sequence[subprocess.Popen[str]], seconds: float) -> None:
    try:
        processes[0].wait(seconds)
    except subprocess.TimeoutExpired:
        return


def interrupts(runs: Runs, first: int, count: int) -> Iterator[str]:
    """Interrupt a run in every phase with every signal; then resume it and compare all bits."""
    cases = [(phase, name) for phase in PHASES for name in SIGNALS][first:count]
    if cases:
        runs.wanted("toy")
    for phase, name in cases:
        folder = runs.folder / f"interrupted-{phase.replace(' ', '-')}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        fault = {"FAULTS_AT": PHASES[phase], "FAULTS_SIGNAL": name}
        cache = "0" if phase == "compilation" else "1"
        ((code, errors),) = end(begin(RUNS["toy"], folder, JAX_ENABLE_COMPILATION_CACHE=cache, **fault))
        left = [*leftovers(folder), *folder.glob(".lock")]
        if code != 130 or not one_line(errors, "civi: interrupted") or left:
            yield f"{name} in {phase}: code {code}, left {left}, {errors[-300:]!r}"
        else:
            wrong = runs.resumed("toy", folder)
            yield f"{name} in {phase}: {wrong}" if wrong else ""


def hangs(runs: Runs, first: int, count: int) -> Iterator[str]:
    """Repeat a comparison whose evaluation once waited for ever; each must end within LIMIT seconds."""
    arguments = ["compare", "waveform", "--solvers", "civi,uivi", "--seeds", "2", "--steps", "200", PLAIN]
    for i in range(first, count):
        folder = runs.folder / f"comparison-of-waveform-{i}"
        shutil.rmtree(folder, ignore_errors=True)
        ((code, errors),) = end(begin(arguments, folder, JAX_DISABLE_MOST_OPTIMIZATIONS="0"))
        shutil.rmtree(folder, ignore_errors=True)
        yield "" if code == 0 else f"comparison {i}: code {code}, {errors[-300:]!r}"


def full_disks(runs: Runs, first: int, count: int) -> Iterator[str]:
    """Let the disk be full from each write on: one line, or warnings and a whole result; afterwards resume."""
    kind = "toy with few checkpoints"
    runs.wanted(kind)
    for which in range(first + 1, count + 1):
        folder = runs.folder / f"full-{which}"
        shutil.rmtree(folder, ignore_errors=True)
        variables = {"FAULTS_FULL": str(which), "FAULTS_FOLDER": str(folder)}
        ((code, errors),) = end(begin(RUNS[kind], folder, **variables))
        left = leftovers(folder)
        if code == 2 and one_line(errors, "civi: error: ") and not left:
            wrong = runs.resumed(kind, folder)
            yield f"write {which}: {wrong}" if wrong else ""
        elif code == 0 and "Traceback" not in errors and not left:
            yield ""
            return
        else:
            yield f"write {which}: code {code}, left {left}, {errors[-300:]!r}"
