"""The overhead of the training loop (progress bar, history and checkpoints) over its compiled blocks of steps."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from civi.bench.timing import Advance, clocked
from civi.bench.workloads import Workload, block, default_settings, workload
from civi.experiment.checkpoint import Checkpoints
from civi.experiment.context import RunContext
from civi.experiment.plan import Plan
from civi.experiment.training import train_and_save
from civi.solver.loop import CAPACITY

STEPS, QUICK = {"waveform": 8000, "mnist": 1500}, {"banana": 4000}


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Time the training loop of `civi run`, alternating with its bare steps; runs are long enough for checkpoints.

    The overhead is the time of the loop relative to the sum of its own blocks in the same run. Bare blocks before and
    after the run would be a worse baseline: on a shared machine they vary by more than the overhead. A quick run is too
    short for a checkpoint before its end.
    """
    rounds, rows = 1 if quick else 3, []
    for name, steps in (QUICK if quick else STEPS).items():
        work = workload(name)
        bare, loop = _bare(work, steps), _loop(name, work, steps)
        seconds = []
        for i in range(rounds):
            advance(f"{name}, round {i + 1} of {rounds}")
            seconds.append((bare(), *loop()))
        _, of_blocks, of_loop = np.array(seconds).T
        overhead = of_loop / of_blocks - 1
        row = {"workload": name, "steps": steps, "overhead": float(np.median(overhead)), "rounds": overhead.tolist()}
        medians = np.median(seconds, axis=0).tolist()
        rows.append(row | dict(zip(("bare_seconds", "block_seconds", "loop_seconds"), medians, strict=True)))
    return {"rows": rows}


def _bare(work: Workload, steps: int) -> Callable[[], float]:
    blocks = -(-steps // CAPACITY)
    program = block(work, steps // blocks).run

    def all_blocks() -> None:
        for _ in range(blocks):
            jax.block_until_ready(program())

    return lambda: clocked(all_blocks).seconds


def _loop(name: str, work: Workload, steps: int) -> Callable[[], tuple[float, float]]:
    """Seconds of the blocks alone, and wall time of the loop from the first block to the last, with checkpoints."""
    plan = Plan.make(name, "civi", "default", 0, None, [])
    settings = replace(default_settings(name, "civi"), solver=replace(work.solver, steps=steps))
    plan = replace(plan, settings=settings)
    screen = Console(file=io.StringIO(), force_terminal=True)

    def run() -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            checkpoints = Checkpoints(Path(folder), every=None)
            trained = train_and_save(
                plan, work.problem, jax.random.key(0), checkpoints, RunContext(Path(folder), screen)
            )
        return trained.seconds, trained.loop_seconds

    return run


def table(found: dict[str, Any]) -> Table:
    """One row per workload."""
    made = Table(title="overhead of progress bar, history and checkpoints", title_justify="left")
    for name in ("workload", "steps", "bare s", "blocks s", "loop s", "overhead", "per round"):
        made.add_column(name, justify="left" if name == "workload" else "right")
    for row in found["rows"]:
        made.add_row(
            row["workload"],
            str(row["steps"]),
            f"{row['bare_seconds']:.2f}",
            f"{row['block_seconds']:.2f}",
            f"{row['loop_seconds']:.2f}",
            f"{row['overhead']:.1%}",
            ", ".join(f"{ratio:.1%}" for ratio in row["rounds"]),
        )
    return made
