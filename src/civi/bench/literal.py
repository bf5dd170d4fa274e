"""How much faster a step is than one written down literally from the paper (benchmarks/literal.py)."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
from rich.table import Table

from civi.bench.timing import Advance, Program, in_turns
from civi.bench.vae_step import joined
from civi.bench.workloads import WORKLOADS, Workload, block, target, workload
from civi.errors import CiviError
from civi.problem.architecture import ImageArchitecture
from civi.solver import Model
from civi.tracker import Extrapolated

FILE = Path(__file__).parents[3] / "benchmarks" / "literal.py"
STEPS = {"banana": 200, "waveform": 50, "mnist": 5}
METHODS = ("civi", "civi, the paper's tracker", "literal")


def measure(quick: bool, advance: Advance) -> dict[str, Any]:
    """Milliseconds of a step, in turns: the default, the same method as the literal one, and the literal one."""
    written = _literal()
    rows = []
    for name in WORKLOADS:
        advance(f"{name}, compiling")
        timed = in_turns(_programs(name, written), 3 if quick else 7, advance, f"{name}, ")
        step = {method: 1e3 * timed[method].median / STEPS[name] for method in METHODS}
        rows.append({"workload": name, "milliseconds": step})
        jax.clear_caches()
    return {"rows": rows}


def _programs(name: str, written: ModuleType) -> dict[str, Program]:
    ours, steps = workload(name), STEPS[name]
    same = Workload(replace(ours.solver, tracker=Extrapolated()), ours.model)  # type: ignore[type-var]
    model, samples = _as_written(name, ours.model), ours.solver.samples  # type: ignore[attr-defined]
    sizes = written.Sizes(samples.outer, samples.inner, samples.batch)
    return {
        "civi": block(ours, steps).run,
        "civi, the paper's tracker": block(same, steps).run,
        "literal": lambda: written.run(model, sizes, steps),
    }


def _as_written(name: str, model: Model) -> Model:
    """The autoencoder without its split layer; others as they are."""
    if name != "mnist":
        return model
    paper = Model.make(ImageArchitecture(), target(name), jax.random.key(1))
    return Model(joined(paper.family), paper.target)


def _literal() -> ModuleType:
    if not FILE.exists():
        raise CiviError(f"the literal version is only in a checkout of the repository ({FILE} is not there)")
    found = importlib.util.spec_from_file_location("civi_literal", FILE)
    if found is None or found.loader is None:
        raise CiviError(f"{FILE} cannot be loaded")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def table(found: dict[str, Any]) -> Table:
    """A line for each workload."""
    made = Table(title="milliseconds of a step beside a literal version", title_justify="left")
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
