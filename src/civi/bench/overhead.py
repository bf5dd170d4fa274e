"""What the training loop adds to its steps: progress bar, history and checkpoints against bare compiled blocks."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from civi.bench.timing import Advance
from civi.bench.workloads import Workload, block, workload
from civi.checkpoint import Checkpoints
from civi.plan import Plan
from civi.run import train_and_save
from civi.solver.loop import CAPACITY

PERIOD = 1000
WORKLOADS = ("waveform", "mnist")


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Seconds of PERIOD steps with one checkpoint, as `civi run` does them, beside those steps alone, in turns."""
    steps, rounds = (PERIOD // 5, 2) if quick else (PERIOD, 3)
    rows = []
    for name in WORKLOADS:
        work = workload(name)
        programs = {"bare": _bare(work, steps), "loop": _loop(name, work, steps)}
        seconds: dict[str, list[float]] = {"bare": [], "loop": []}
        for i in range(rounds):
            for kind, run in programs.items():
                advance(f"{name}, {kind}, round {i + 1} of {rounds}")
                seconds[kind].append(run())
        ratio = np.array(seconds["loop"]) / np.array(seconds["bare"]) - 1
        row = {"workload": name, "steps": steps, "overhead": float(np.median(ratio)), "rounds": ratio.tolist()}
        rows.append(row | {f"{kind}_seconds": float(np.median(values)) for kind, values in seconds.items()})
    return {"rows": rows}


def _bare(work: Workload, steps: int) -> Callable[[], float]:
    blocks = -(-steps // CAPACITY)
    program = block(work, steps // blocks).run

    def run() -> float:
        begun = time.perf_counter()
        for _ in range(blocks):
            jax.block_until_ready(program())
        return time.perf_counter() - begun

    return run


def _loop(name: str, work: Workload, steps: int) -> Callable[[], float]:
    """From the first block to the last, without compiling, with a checkpoint at the end."""
    solver = replace(work.solver, steps=steps)  # type: ignore[type-var]
    plan = Plan.make(name, "civi", "default", 0, None, [])
    plan = replace(plan, settings=replace(plan.settings, solver=solver))
    screen = Console(file=io.StringIO(), force_terminal=True)

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            checkpoints = Checkpoints(Path(folder), every=steps)
            return train_and_save(plan, work.model, jax.random.key(0), checkpoints, screen, resume=False).loop_seconds

    return run


def table(found: dict[str, Any]) -> Table:
    """A line for each workload."""
    made = Table(title="progress, history and one checkpoint, beside the bare steps", title_justify="left")
    for name in ("workload", "steps", "bare s", "loop s", "overhead", "each round"):
        made.add_column(name, justify="left" if name == "workload" else "right")
    for row in found["rows"]:
        made.add_row(
            row["workload"],
            str(row["steps"]),
            f"{row['bare_seconds']:.2f}",
            f"{row['loop_seconds']:.2f}",
            f"{row['overhead']:.1%}",
            ", ".join(f"{ratio:.1%}" for ratio in row["rounds"]),
        )
    return made
