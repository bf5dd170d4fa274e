"""`civi bench`: run the parts of the benchmark, print their tables and write the results as JSON."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import jax
from rich.console import Console
from rich.table import Table

from civi.bench import growth, literal, memory, overhead, quality, steps, vae_step
from civi.bench.timing import Advance
from civi.errors import unknown
from civi.files import write_json


class Part(Protocol):
    """The interface of a module that measures something and shows the result as a table."""

    def measure(self, quick: bool, advance: Advance) -> dict[str, Any]:
        """Measure; `advance` is called with a description of the current work."""
        ...

    def table(self, found: dict[str, Any]) -> Table:
        """The results as a table."""
        ...


MODULES: dict[str, ModuleType] = {
    "steps": steps,
    "vae-step": vae_step,
    "literal": literal,
    "overhead": overhead,
    "growth": growth,
    "memory": memory,
    "quality": quality,
}
PARTS = {name: cast(Part, module) for name, module in MODULES.items()}


def bench(part: str, console: Console, *, quick: bool, out: Path | None) -> dict[str, Any]:
    """Run the parts of the benchmark and show their tables.

    Args:
        part: name of a part, or all.
        console: where the tables are shown.
        quick: whether to use fewer rounds, methods and sizes.
        out: JSON file for the results.

    Returns:
        The results by part, with a description of the machine.
    """
    if part != "all" and part not in PARTS:
        raise unknown("part of the benchmark", part, ["all", *PARTS])
    found: dict[str, Any] = {"machine": _machine(), "quick": quick}
    for name in PARTS if part == "all" else [part]:
        with console.status(f"{name}: compiling") as status:

            def advance(done: str, name: str = name, status: Any = status) -> None:
                status.update(f"{name}: {done}")

            found[name] = PARTS[name].measure(quick, advance)
        console.print(PARTS[name].table(found[name]))
        if out:
            write_json(out, found)
    return found


def _machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
