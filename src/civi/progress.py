"""What a command or a fit is doing, as a line that is redrawn, and the table of its results."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from civi.notebook import LateLine, NotebookLine

Item = TypeVar("Item")
Say = Callable[[str], None]
INTERVAL = 0.25
COLUMNS = (
    SpinnerColumn(finished_text=" "),
    TextColumn("[bold]{task.description}"),
    BarColumn(),
    TextColumn("{task.fields[note]}"),
    TextColumn("{task.fields[clock]}"),
)


class TrainingBar:
    """What is being done, with the number of steps, the current neg_elbo and the time left; `update` is cheap.

    In a terminal it is a progress bar, and in a notebook a line of the cell's output; elsewhere nothing is shown. It
    keeps the number of steps that were done, also if that is fewer than the total.

    Args:
        console: where it is shown.
        name: name of the task.
        total: total number of steps, or of what is counted.
        counted: name of the phase that consists of the steps.
        at_most: whether fewer steps may be needed, so that the time left is an upper bound.
    """

    def __init__(
        self, console: Console, name: str, total: int, *, counted: str = "training", at_most: bool = False
    ) -> None:
        self._name, self._total, self._counted, self._at_most = name, total, counted, at_most
        self._phase, self._done, self._note = "compiling", 0, ""
        self._begun, self._start = time.monotonic(), (0, time.monotonic())
        self._notebook = _line(console)
        shown = console.is_terminal and not console.quiet
        self._progress = Progress(*COLUMNS, console=console, refresh_per_second=4, disable=not shown)
        self._task = self._progress.add_task(name, total=total, note="", clock="")

    def __enter__(self) -> TrainingBar:
        self._progress.start()
        self._draw(always=True)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._progress.live.transient = error is not None
        self._draw(always=True, ended=True)
        self._progress.stop()

    def phase(self, name: str) -> None:
        """Show what is being done, before and after the steps."""
        self._phase, self._start = name, (self._done, time.monotonic())
        self._draw(always=True)

    def update(self, done: int, neg_elbo: float | None = None) -> None:
        """Show the number of finished steps and the current neg_elbo."""
        if self._phase != self._counted:
            self._phase, self._start = self._counted, (done, time.monotonic())
        self._done = done
        self._note = "" if neg_elbo is None else f"neg_elbo {neg_elbo:.4f}"
        self._draw()

    def _draw(self, *, always: bool = False, ended: bool = False) -> None:
        description = self._name if ended else f"{self._name}: {self._phase}"
        note = f"{self._done}/{self._total} {self._note}".rstrip()
        clock = _clock(time.monotonic() - self._begun) if ended else self._left()
        if self._notebook is not None:
            text = ", ".join(filter(None, (description, note, clock)))
            self._notebook.show(text, self._done, self._total, always=always)
        self._progress.update(self._task, completed=self._done, description=description, note=note, clock=clock)

    def _left(self) -> str:
        """The time left, if it can be known."""
        first, begun = self._start
        if self._phase != self._counted or self._done <= first:
            return ""
        left = time_left(time.monotonic() - begun, self._done - first, self._total - self._done)
        return f"{'at most ' if self._at_most else ''}{left}"


@contextmanager
def showing(console: Console, phase: str) -> Iterator[Say]:
    """Show what is being done for as long as it takes, in a terminal or a notebook.

    Yields:
        A function that changes the text.
    """
    if console.quiet:  # in a notebook, Rich would ask for ipywidgets even so
        yield silent
        return
    if not console.is_jupyter:
        with console.status(phase) as status:
            yield status.update
        return
    line = LateLine(phase)
    try:
        yield line.change
    finally:
        line.end()


@contextmanager
def phases(name: str, progress: bool) -> Iterator[Say]:
    """Show what a call does, on the standard error.

    Args:
        name: name of the call.
        progress: whether to show anything.

    Yields:
        A function that takes the name of the phase that begins.
    """
    with showing(screen_of(progress), name) as show:
        yield lambda phase: show(f"{name}: {phase}")


def silent(phase: str) -> None:
    """Say nothing."""


def counted(items: Sequence[Item], phase: str, say: Say) -> Iterator[Item]:
    """The items, while the number of those that are done and the time left are shown."""
    begun = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last >= INTERVAL:
            last = now
            say(f"{phase}, {done}/{len(items)}, {time_left(now - begun, done, len(items) - done)}")
        yield item


def _line(console: Console) -> NotebookLine | None:
    """The line of a notebook's output, if there is one."""
    return NotebookLine() if console.is_jupyter and not console.quiet else None


def time_left(seconds: float, done: int, remaining: int) -> str:
    """The time that the remaining steps take if they take as long as those done.

    Args:
        seconds: time of the steps done.
        done: number of steps done, at least 1.
        remaining: number of steps that remain.
    """
    return f"{_clock(seconds / done * remaining)} left"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


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


def screen_of(progress: bool) -> Console:
    """The console of progress bars, on the standard error; silent unless `progress` is set."""
    made = console(stderr=True)
    made.quiet = not progress
    return made


def console(*, stderr: bool = False) -> Console:
    """A console that is wide enough for tables if the output goes to a file or a pipe.

    FORCE_COLOR, which notebooks and build servers set, makes Rich take a pipe for a terminal. Progress bars would then
    fill the pipe, so the stream itself is asked.
    """
    made = Console(stderr=stderr)
    if made.is_jupyter or made.file.isatty():
        return made
    return Console(stderr=stderr, force_terminal=False, width=None if os.environ.get("COLUMNS") else 100)
