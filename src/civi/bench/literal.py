"""The speed-up of a step over a literal implementation of the paper (`civi.bench.literal_version`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
from rich.table import Table

from civi.bench import literal_version
from civi.bench.joined import unsplit
from civi.bench.timing import Advance, Program, in_turns
from civi.bench.workloads import WORKLOADS, Workload, block, workload
from civi.problem import ImageArchitecture
from civi.tracker import Extrapolated

STEPS = {"banana": 200, "waveform": 50, "mnist": 5}
QUICK = ("banana",)
METHODS = ("civi", "civi, the paper's tracker", "literal")


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Time a step of civi's defaults, of civi with the tracker of the literal version, and of the literal version."""
    rows = []
    for name in QUICK if quick else WORKLOADS:
        advance(f"{name}, compiling")
        timed = in_turns(_programs(name), 3 if quick else 7, advance, f"{name}, ")
        step = {method: 1e3 * timed[method].median / STEPS[name] for method in METHODS}
        rows.append({"workload": name, "milliseconds": step})
        jax.clear_caches()
    return {"rows": rows}


def _programs(name: str) -> dict[str, Program]:
    ours, steps = workload(name), STEPS[name]
    same = Workload(replace(ours.solver, tracker=Extrapolated()), ours.problem)
    problem = unsplit(workload(name, architecture=ImageArchitecture()).problem) if name == "mnist" else ours.problem
    sizes = literal_version.Sizes(ours.solver.samples.outer, ours.solver.samples.inner)
    return {
        "civi": block(ours, steps).run,
        "civi, the paper's tracker": block(same, steps).run,
        "literal": lambda: literal_version.run(problem, sizes, steps),
    }


def table(found: dict[str, Any]) -> Table:
    """One row per workload."""
    made = Table(title="milliseconds per step, compared with a literal implementation", title_justify="left")
    for name in ("workload", *METHODS, "literal / civi", "literal / same tracker"):
        made.add_column(name, justify="left" if name == "workload" else "right")
    for row in found["rows"]:
        step = row["milliseconds"]
        civi, same, literal = (step[method] for method in METHODS)
        made.add_row(
            row["workload"],
            f"{civi:.3g}",
            f"{same:.3g}",
            f"{literal:.3g}",
            f"{literal / civi:.1f}",
            f"{literal / same:.1f}",
        )
    return made
