"""Tasks by name: a target, what is measured on it, and its figures. Cheap to import; JAX is loaded when one is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.errors import unknown

if TYPE_CHECKING:
    from civi.diagnose import Bounds
    from civi.solver import Model


@dataclass(frozen=True)
class Task:
    """make gives the target, measure the task's own entries of metrics.json, draw its figures."""

    name: str
    summary: str
    make: Callable[[], Any]
    measure: Callable[[Bounds], dict[str, float]]
    draw: Callable[[Model, Any, Path], list[Path]]


def toy(name: str, summary: str) -> Task:
    """A two-dimensional target with known density: the measure is KL(q || p)."""

    def make() -> Any:
        from civi.target import toy as toys

        return getattr(toys, name.replace("-", "_"))()

    def measure(bounds: Bounds) -> dict[str, float]:
        return {"kl": bounds.upper, "kl_se": bounds.upper_se, "kl_lower": bounds.lower, "kl_lower_se": bounds.lower_se}

    def draw(model: Model, draws: Any, folder: Path) -> list[Path]:
        from civi.report.toy_figure import draw_toy

        return [draw_toy(model, draws, folder / "density.png", name)]

    return Task(name, summary, make, measure, draw)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        toy("two-modal", "0.5 N((-2, 0), I) + 0.5 N((2, 0), I)"),
        toy("star", "0.5 N(0, [[2, 1.8], [1.8, 2]]) + 0.5 N(0, [[2, -1.8], [-1.8, 2]])"),
        toy("banana", "(a, b - a^2 - 1) with (a, b) ~ N(0, [[1, 0.9], [0.9, 1]])"),
    )
}


def find_task(name: str) -> Task:
    """The task of this name, or an error with the nearest one."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]
