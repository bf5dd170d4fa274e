"""Gradient sketching (Algorithm 2) measured: quality, CPU time per step and peak memory against d_t.

    python benchmarks/sketching.py [--tasks star,waveform,mnist] [--recipe default] [--seeds 1] [--steps N]

A sketch keeps d_t of the K1 outer samples in the gradient. Beside it stands the plain alternative, fewer outer samples,
which also spends d_t samples on the gradient. Every row runs in its own process, whose peak memory it reports. Images
are trained for 1,000 steps unless --steps is given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from civi.bench.memory import peak_megabytes
from civi.experiment.plan import Plan
from civi.experiment.training import posterior_of
from civi.problem import make_problem
from civi.solver import train

DIVISORS = (4, 16)
SHORT = {"mnist": 1000}


def rows_of(outer: int, batches: bool) -> dict[str, list[str]]:
    """The settings of every row by its label; with batches of data there is one outer sample per datum."""
    kept = [outer // divisor for divisor in DIVISORS]
    sketched = {f"d_t = {size}": ["sketch.form=sparse", f"sketch.size={size}"] for size in kept}
    names = ("samples.outer", "problem.batch") if batches else ("samples.outer",)
    fewer = {f"no sketch, K1 = {size}": [f"{name}={size}" for name in names] for size in kept}
    return {f"no sketch, K1 = {outer}": []} | sketched | fewer


def fit(plan: Plan, seed: int) -> tuple[float, float, bool, float]:
    """The task's primary metric, CPU milliseconds per step, whether the run finished, and the peak memory after it."""
    settings, source = plan.settings, plan.source()
    family_key, train_key, *others = plan.keys(seed)
    problem = make_problem(settings.family, settings.pilot.look(source), family_key, settings.problem)
    marks: list[tuple[int, float]] = []

    def mark(state: Any, history: Any) -> None:
        marks.append((int(state.done), time.process_time()))

    trained = train(settings.solver, problem, train_key, watch=mark)
    megabytes = peak_megabytes()
    measures = plan.task.evaluate(posterior_of(trained.problem), others, "quick").measures
    (first, begun), (last, ended) = marks[0], marks[-1]
    milliseconds = 1e3 * (ended - begun) / max(last - first, 1)
    return float(measures[plan.task.primary_metric]), milliseconds, trained.status == "finished", megabytes


def one_row(plan: Plan, seeds: int) -> dict[str, Any]:
    """The mean metric and time over seeds, how many finished, and the peak memory of training."""
    found = [fit(plan, seed) for seed in range(seeds)]
    quality, milliseconds, finished, megabytes = zip(*found, strict=True)
    return {
        "quality": float(np.mean(quality)),
        "milliseconds": float(np.mean(milliseconds)),
        "finished": sum(finished),
        "megabytes": megabytes[0],
    }


def in_own_process(words: list[str]) -> dict[str, Any]:
    """The row that a child process prints."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print a table for every task, or, as a child process, one row as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="star,waveform,mnist", help="names separated by commas")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--solver", default="civi")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--row", help="settings of a single row, separated by spaces")
    asked = parser.parse_args()
    for task in asked.tasks.split(","):
        steps = asked.steps or SHORT.get(task)

        def plan_of(assignments: list[str], task: str = task, steps: int | None = steps) -> Plan:
            return Plan.make(task, asked.solver, asked.recipe, 0, steps, assignments)

        if asked.row is not None:
            print(json.dumps(one_row(plan_of(asked.row.split()), asked.seeds)))
            return
        plan = plan_of([])
        print(f"\n| {task} | {plan.task.primary_metric} | CPU ms per step | MB | finished |", flush=True)
        print("|---|---|---|---|---|", flush=True)
        common = ["--recipe", asked.recipe, "--solver", asked.solver, "--seeds", str(asked.seeds), "--tasks", task]
        common += ["--steps", str(asked.steps)] if asked.steps else []
        batches = plan.settings.problem.batch is not None
        for label, assignments in rows_of(plan.settings.solver.samples.outer, batches).items():
            row = in_own_process([*common, "--row", " ".join(assignments)])
            cells = f"{row['quality']:.5g} | {row['milliseconds']:.2f} | {row['megabytes']:.0f} | {row['finished']}"
            print(f"| {label} | {cells} of {asked.seeds} |", flush=True)


if __name__ == "__main__":
    main()
