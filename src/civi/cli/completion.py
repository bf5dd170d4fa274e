"""Names that a shell completes after `civi --install-completion`; nothing heavy is imported for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from civi.experiment.data.registry import SETS
from civi.experiment.tasks import OWN_DATA, TASKS

SOURCE = Path(__file__).parents[1]


def task_names(incomplete: str) -> list[tuple[str, str]]:
    """Tasks that begin with the text, each with its summary."""
    summaries = {name: entry.summary for name, entry in TASKS.items()} | OWN_DATA
    return [(name, summaries[name]) for name in beginning(summaries, incomplete)]


def solver_names(incomplete: str) -> list[str]:
    """Solvers that begin with the text, and nuts."""
    return beginning([*names_in(SOURCE / "solver" / "registry.py", "SOLVERS"), "nuts"], incomplete)


SolverName = Annotated[str, typer.Option(help="How to fit it; `civi solvers` lists them.", autocompletion=solver_names)]


def solver_lists(incomplete: str) -> list[str]:
    """Solvers for the last part of a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in solver_names(last)]


def bench_parts(incomplete: str) -> list[str]:
    """Parts of the benchmark that begin with the text, and all."""
    return beginning([*names_in(SOURCE / "bench" / "command.py", "MODULES"), "all"], incomplete)


def data_sets(incomplete: str) -> list[str]:
    """Data sets that begin with the text."""
    return beginning(SETS, incomplete)


def beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that begin with the text."""
    return [name for name in names if name.startswith(incomplete)]


def names_in(file: Path, variable: str) -> list[str]:
    """The keys of a module's dictionary, read from its source, because importing a solver would import JAX."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.value, ast.Dict):
            continue
        if isinstance(statement.target, ast.Name) and statement.target.id == variable:
            return [str(key.value) for key in statement.value.keys if isinstance(key, ast.Constant)]
    return []
