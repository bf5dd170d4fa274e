"""How the time per step grows with outer and inner samples, dimension, rows of data and number of seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from rich.table import Table

from civi.bench.timing import Advance, Program, clocked, in_turns
from civi.bench.workloads import Workload, block, problem_of, source, workload
from civi.family import Architecture
from civi.parts import split
from civi.problem import make_problem
from civi.problem.target import LogDensity, LogisticRegression
from civi.solver import train
from civi.solver.loop import run_blocks, start

STEPS, MANY = 20, 32
INNER = "inner samples K2 (banana)"
QUICK = (INNER,)


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Measure the time per step at growing sizes, and fit the exponent of growth over the larger half of the sizes."""
    rows = []
    for name in QUICK if quick else SWEEPS:
        sizes, make = SWEEPS[name]
        sizes = sizes[:3] if quick else sizes
        programs: dict[str, Program] = {}
        for size in sizes:
            advance(f"{name} = {size:,}, compiling")
            programs[str(size)] = make(size)
        timed = in_turns(programs, 3 if quick else 7, advance, f"{name} = ")
        seconds = [timed[str(size)].median / STEPS for size in sizes]
        half = len(sizes) // 2
        slope = np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0]
        rows.append({"grows": name, "sizes": list(sizes), "seconds": seconds, "exponent": float(slope)})
    if quick:
        return {"rows": rows}
    advance("complete fits of one seed and of many seeds")
    whole = [_whole_fits(seeds, 3000) for seeds in (1, MANY)]
    return {"rows": rows, "seeds": MANY, "whole_fit_seconds": whole}


def _whole_fits(seeds: int, steps: int) -> float:
    """Wall time of this number of fits of the banana in one program, including compilation."""

    def fits() -> None:
        work, keys = _runs(seeds)
        jax.clear_caches()
        train(replace(work.solver, steps=steps), work.problem, keys)

    return clocked(fits).seconds


def _outer(size: int) -> Program:
    return block(workload("banana", outer=size), STEPS).run


def _inner(size: int) -> Program:
    return block(workload("banana", inner=size), STEPS).run


def _dimension(dim: int) -> Program:
    """A standard Gaussian target, with the family of regressions and `civi.fit`."""
    gaussian = LogDensity(lambda z: -0.5 * z @ z, dim)
    return block(Workload(workload("banana").solver, problem_of(Architecture.in_frame(10), gaussian)), STEPS).run


def _rows(rows: int) -> Program:
    """Logistic regression in 20 dimensions; every step uses all rows."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 20)).astype(np.float32), rng.integers(2, size=rows).astype(np.float32)
    regression = LogisticRegression(jnp.asarray(x), jnp.asarray(y))
    problem = problem_of(Architecture.in_frame(10), regression)
    return block(Workload(workload("waveform", outer=16).solver, problem), STEPS).run


def _seeds(seeds: int) -> Program:
    """This number of runs of the banana in one program."""
    work, keys = _runs(seeds)
    states, fixed = start(work.solver, work.problem, keys), split(work.problem)[1]
    program = eqx.filter_jit(run_blocks)
    return lambda: program(work.solver, fixed, states, jnp.asarray(STEPS))


def _runs(seeds: int) -> tuple[Workload, Key[Array, " seeds"]]:
    """The banana with one family per seed, and one key per seed."""
    work, keys = workload("banana"), jax.random.split(jax.random.key(0), seeds)
    params = eqx.filter_vmap(lambda key: split(make_problem(Architecture(), source("banana"), key))[0])(keys)
    return Workload(work.solver, eqx.combine(params, split(work.problem)[1])), keys


SWEEPS: dict[str, tuple[tuple[int, ...], Callable[[int], Program]]] = {
    "outer samples K1 (banana)": ((64, 256, 1024, 4096), _outer),
    INNER: ((50, 200, 800, 3200, 12_800), _inner),
    "dimension (Gaussian)": ((4, 16, 64, 256), _dimension),
    "rows (regression, 16 outer)": ((1000, 10_000, 100_000, 1_000_000), _rows),
    "seeds (banana)": ((1, 2, 8, 32), _seeds),
}


def table(found: dict[str, Any]) -> Table:
    """One row per quantity that grows."""
    made = Table(title="milliseconds per step at growing sizes", title_justify="left")
    if "whole_fit_seconds" in found:
        (one, many), seeds = found["whole_fit_seconds"], found["seeds"]
        took = f"{seeds} seeds {many:.1f} s, one {one:.1f} s, ratio {many / one:.1f}"
        made.caption = f"complete fits with compilation: {took}"
    for name in ("quantity", "sizes", "ms", "last / first", "exponent"):
        made.add_column(name, justify="left" if name == "quantity" else "right")
    for row in found["rows"]:
        made.add_row(
            row["grows"],
            ", ".join(f"{size:,}" for size in row["sizes"]),
            ", ".join(f"{1e3 * value:.3g}" for value in row["seconds"]),
            f"{row['seconds'][-1] / row['seconds'][0]:.1f}",
            f"{row['exponent']:.2f}",
        )
    return made
