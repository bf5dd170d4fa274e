"""The toys of appendix B as tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.experiment.tasks.base import Draws, Task
from civi.experiment.tasks.posterior import LogDensityOfQ, PosteriorTask

if TYPE_CHECKING:
    import numpy as np

    from civi.inference.diagnose import Bounds


def toy(name: str, summary: str) -> Task:
    """A two-dimensional target with known density: KL(q || p), and the distance to exact draws."""

    def make() -> Any:
        from civi.problem.target import toy as toys

        return getattr(toys, name.replace("-", "_"))()

    def draw(target: Any, log_q: LogDensityOfQ | None, draws: Draws, folder: Path) -> list[Path]:
        from civi.experiment.report.toy_figure import draw_toy

        return [draw_toy(target, log_q, next(iter(draws.values())), folder / "density.png", name)]

    return PosteriorTask(name, summary, make, "kl", measure=_measure, picture=draw, objective_is_kl=True)


def _measure(target: Any, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
    import jax

    from civi.inference.diagnose import sliced_wasserstein

    exact_key, other_key, slice_key = jax.random.split(jax.random.key(0), 3)
    exact, other = target.sample(exact_key, len(draws)), target.sample(other_key, len(draws))
    distance = {
        "sliced_wasserstein": sliced_wasserstein(draws, exact, slice_key),
        "sliced_wasserstein_floor": sliced_wasserstein(other, exact, slice_key),
    }
    if bounds is None:
        return distance
    kl = {"kl": bounds.upper, "kl_se": bounds.upper_se, "kl_lower": bounds.lower, "kl_lower_se": bounds.lower_se}
    return kl | distance
