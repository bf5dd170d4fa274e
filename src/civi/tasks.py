"""Tasks by name: a target, what is measured on it, and its figures. Cheap to import; JAX is loaded when one is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.errors import unknown

if TYPE_CHECKING:
    import numpy as np

    from civi.diagnose import Bounds
    from civi.family import SemiImplicit


@dataclass(frozen=True)
class Task:
    """A target, its entries of metrics.json (from draws and, where q has a density, bounds), and its figures.

    rank_by names the measure that orders a comparison, smaller is better; distance the one that draws alone can give.
    """

    name: str
    summary: str
    make: Callable[[], Any]
    measure: Callable[[Any, np.ndarray, Bounds | None], dict[str, float]]
    draw: Callable[[Any, SemiImplicit | None, np.ndarray, Path], list[Path]]
    rank_by: str
    distance: str = "sliced_wasserstein"
    objective_is_kl: bool = False
    draws: int = 4000


def toy(name: str, summary: str) -> Task:
    """A two-dimensional target with known density: KL(q || p), and the distance to exact draws."""

    def make() -> Any:
        from civi.target import toy as toys

        return getattr(toys, name.replace("-", "_"))()

    def measure(target: Any, draws: np.ndarray, bounds: Bounds | None) -> dict[str, float]:
        import jax

        from civi.diagnose import sliced_wasserstein

        exact_key, other_key, slice_key = jax.random.split(jax.random.key(0), 3)
        exact, other = target.sample(exact_key, len(draws)), target.sample(other_key, len(draws))
        distance = {
            "sliced_wasserstein": float(sliced_wasserstein(draws, exact, slice_key)),
            "sliced_wasserstein_floor": float(sliced_wasserstein(other, exact, slice_key)),
        }
        if bounds is None:
            return distance
        kl = {"kl": bounds.upper, "kl_se": bounds.upper_se, "kl_lower": bounds.lower, "kl_lower_se": bounds.lower_se}
        return kl | distance

    def draw(target: Any, family: SemiImplicit | None, draws: np.ndarray, folder: Path) -> list[Path]:
        from civi.report.toy_figure import draw_toy

        return [draw_toy(target, family, draws, folder / "density.png", name)]

    return Task(name, summary, make, measure, draw, rank_by="kl", objective_is_kl=True)


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
