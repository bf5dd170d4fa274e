"""The progress bar of a run and the table of its results."""

from __future__ import annotations

import math
import os
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

COLUMNS = (
    TextColumn("[bold]{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("neg_elbo {task.fields[neg_elbo]}"),
    TimeRemainingColumn(),
)


class TrainingBar:
    """A progress bar with the current neg_elbo and the remaining time; `update` is cheap.

    Args:
        console: where the bar is shown.
        name: name of the task.
        steps: total number of steps.
    """

    def __init__(self, console: Console, name: str, steps: int) -> None:
        self._progress = Progress(*COLUMNS, console=console, refresh_per_second=4)
        self._task = self._progress.add_task(f"{name}: compiling", total=steps, neg_elbo="-")
        self._name = name

    def __enter__(self) -> TrainingBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, name: str) -> None:
        """Show what is being done, before and after training."""
        self._progress.update(self._task, description=f"{self._name}: {name}")

    def update(self, done: int, neg_elbo: float) -> None:
        """Show the number of finished steps and the current neg_elbo."""
        self._progress.update(self._task, completed=done, neg_elbo=f"{neg_elbo:.4f}", description=self._name)


def result_table(metrics: dict[str, Any]) -> Table:
    """A table of the measures.

    Args:
        metrics: the content of metrics.json.
    """
    table = Table(title=f"{metrics['task']} with {metrics['solver']}, recipe {metrics['recipe']}", title_justify="left")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in measures(metrics):
        table.add_row(name, value)
    return table


def measures(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows of the table: each measure, with its standard error if there is one."""
    skip = {"task", "solver", "recipe", "message"}
    rows = []
    for name, value in metrics.items():
        if name in skip or name.endswith("_se"):
            continue
        error = metrics.get(f"{name}_se")
        text = _number(value)
        rows.append((name, f"{text} ± {_number(error)}" if error is not None else text))
    return rows


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:.4g}"
    return str(value)


def console(*, stderr: bool = False) -> Console:
    """A console that is wide enough for tables if the output goes to a file."""
    width = None if os.environ.get("COLUMNS") else 100
    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(stderr=stderr, width=width)
