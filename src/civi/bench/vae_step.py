"""The time per step on the autoencoder, measured on this machine, beside the paper's table."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from civi.bench.joined import unsplit
from civi.bench.machine import product_rate, products
from civi.bench.timing import Advance, Timed, in_turns
from civi.bench.workloads import Workload, block, image_products, workload
from civi.problem import ImageArchitecture

PAPER = {"sivi": 155, "uivi": 69, "asc-pg": 157, "scgd": 152, "civi-paper": 56}
SOLVERS = ("sivi", "uivi", "asc-pg", "scgd", "civi-paper", "civi", "nmc-adam", "mfvb")
QUICK = ("civi",)
BATCH, INNER = 300, 30
JOINED = "civi, first layer not split"


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Time every solver with the paper's encoder and equal sample sizes, and civi without the split first layer.

    The paper's 56 ms belong to CI-VI with its tracker and update, which is civi-paper; civi has no tracker here.
    """
    rounds, steps = (3, 5) if quick else (9, 10)
    solvers = QUICK if quick else SOLVERS
    works = {name: _on_paper(name) for name in solvers}
    works[JOINED] = Workload(works["civi"].solver, unsplit(works["civi"].problem))
    blocks = {}
    for name, work in works.items():
        advance(f"compiling {name}")
        blocks[name] = block(work, steps)
    shapes = image_products(BATCH, INNER)
    programs = {name: one.run for name, one in blocks.items()} | {"products": products(shapes, steps)}
    timed = {name: value.scaled(1 / steps) for name, value in in_turns(programs, rounds, advance).items()}
    rate = product_rate(shapes, timed.pop("products"))
    rows = [_row(name, value, blocks[name].flops, rate) for name, value in timed.items()]
    return {"batch": BATCH, "inner": INNER, "steps": steps, "rounds": rounds, "product_rate": rate, "rows": rows}


def _on_paper(solver: str) -> Workload:
    """The workload of a solver with the paper's encoder; mean field has its own encoder."""
    encoder = None if solver == "mfvb" else ImageArchitecture()
    return workload("mnist", solver, encoder, BATCH, outer=BATCH, inner=INNER)


def _row(name: str, seconds: Timed, flops: float, rate: float) -> dict[str, Any]:
    return {
        "solver": name,
        "milliseconds": 1e3 * seconds.median,
        "quartiles": [1e3 * seconds.low, 1e3 * seconds.high],
        "paper_milliseconds": PAPER.get(name),
        "gigaflop": flops / 1e9,
        "share_of_product_rate": flops / seconds.median / rate,
    }


def table(found: dict[str, Any]) -> Table:
    """Milliseconds per step beside the paper's, FLOPs, and the fraction of the product rate."""
    title = f"one step of the autoencoder, batch {found['batch']}, {found['inner']} inner samples"
    note = f"matrix products of the same shapes: {found['product_rate'] / 1e9:.0f} GFLOP/s"
    made = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for name in ("solver", "ms", "quartiles", "/ civi", "paper's ms", "GFLOP", "of product rate"):
        made.add_column(name, justify="left" if name == "solver" else "right")
    civi = next(row["milliseconds"] for row in found["rows"] if row["solver"] == "civi")
    for row in found["rows"]:
        low, high = row["quartiles"]
        made.add_row(
            row["solver"],
            f"{row['milliseconds']:.1f}",
            f"{low:.1f} to {high:.1f}",
            f"{row['milliseconds'] / civi:.2f}",
            str(row["paper_milliseconds"] or ""),
            f"{row['gigaflop']:.2f}",
            f"{row['share_of_product_rate']:.0%}",
        )
    return made
