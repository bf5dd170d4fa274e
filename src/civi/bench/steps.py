"""The time per step of every solver on every workload, with equal sample sizes, relative to nested Monte Carlo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from civi.bench.machine import product_rate, products
from civi.bench.timing import Advance, in_turns
from civi.bench.workloads import BATCHES, SIZES, WORKLOADS, Block, block, image_products, workload
from civi.solver import SOLVERS

TRAINED = tuple(SOLVERS)
QUICK = {"banana": ("civi", "nmc-adam")}
STEPS = {"banana": 40, "waveform": 40, "mnist": 10}
YARDSTICK, REPEATS = "nmc-adam", 10


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Measure time, FLOPs and compilation, one workload after the other; the solvers of a workload alternate."""
    rows: list[dict[str, Any]] = []
    for name, solvers in (QUICK if quick else dict.fromkeys(WORKLOADS, TRAINED)).items():
        rows += _on(name, solvers, 3 if quick else 9, advance)
    return {"rows": rows}


def _on(name: str, solvers: Sequence[str], rounds: int, advance: Advance) -> list[dict[str, Any]]:
    blocks: dict[str, Block] = {}
    for solver in solvers:
        advance(f"{name}, compiling {solver}")
        blocks[solver] = block(workload(name, solver), STEPS[name])
    shapes = image_products(BATCHES["mnist"], SIZES["mnist"]["inner"])
    programs = {solver: one.run for solver, one in blocks.items()} | {"products": products(shapes, REPEATS)}
    timed = in_turns(programs, rounds, advance, f"{name}, ")
    rate = product_rate(shapes, timed.pop("products").scaled(1 / REPEATS))
    rows = []
    for solver, seconds in timed.items():
        step = seconds.scaled(1 / STEPS[name])
        rows.append(
            {
                "workload": name,
                "solver": solver,
                "milliseconds": 1e3 * step.median,
                "quartiles": [1e3 * step.low, 1e3 * step.high],
                "of_nmc": seconds.median / timed[YARDSTICK].median,
                "compile_seconds": blocks[solver].compile_seconds,
                "megaflop": blocks[solver].flops / 1e6,
                "share_of_product_rate": blocks[solver].flops / step.median / rate,
            }
        )
    return rows


def table(found: dict[str, Any]) -> Table:
    """One row per solver and workload."""
    made = Table(title="one step, with civi's outer and inner samples for all solvers", title_justify="left")
    for name in ("workload", "solver", "ms", "quartiles", "/ nmc-adam", "compile s", "MFLOP", "of product rate"):
        made.add_column(name, justify="left" if name in ("workload", "solver") else "right")
    for row in found["rows"]:
        low, high = row["quartiles"]
        made.add_row(
            row["workload"],
            row["solver"],
            f"{row['milliseconds']:.3g}",
            f"{low:.3g} to {high:.3g}",
            f"{row['of_nmc']:.2f}",
            f"{row['compile_seconds']:.1f}",
            f"{row['megaflop']:.3g}",
            f"{row['share_of_product_rate']:.0%}",
        )
    return made
