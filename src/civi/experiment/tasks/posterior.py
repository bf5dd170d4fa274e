"""Tasks with one posterior: a target whose draws and density are compared with the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from civi.experiment.tasks.base import Advance, Draws, Judged, Task

if TYPE_CHECKING:
    import numpy as np

    from civi.inference.diagnose import Bounds

LogDensityOfQ = Callable[[Any], Any]
GLANCE_OUTER, GLANCE_INNER = 1000, 2000


@dataclass(frozen=True)
class PosteriorTask(Task):
    """`measure` gives entries of metrics.json from draws and, where q has a density, bounds.

    `picture` gets log q of points (None where q has no density) and the draws of one solver under its name;
    `pictures` those of several.
    """

    measure: Callable[[Any, np.ndarray, Bounds | None], dict[str, Any]] = field(kw_only=True)
    picture: Callable[[Any, LogDensityOfQ | None, Draws, Path], list[Path]] = field(kw_only=True)
    pictures: Callable[[Any, Draws, Path], list[Path]] | None = field(default=None, kw_only=True)
    beside: str = "sliced_wasserstein"
    draws: int = 4000

    def judge(self, model: Any, keys: Any, advance: Advance | None = None) -> Judged:
        import numpy as np

        from civi.inference.diagnose import neg_elbo_bounds
        from civi.problem.target import outward

        measure_key, draw_key = keys
        draws = np.asarray(outward(model.target, model.family.sample(draw_key, self.draws)))
        bounds = neg_elbo_bounds(model.family, model.target, measure_key)
        measures = {"neg_elbo": bounds.upper, "neg_elbo_se": bounds.upper_se}
        return Judged(measures | self.measure(_own(model.target), draws, bounds), draws)

    def glance(self, model: Any) -> Any:
        import jax

        from civi.inference.diagnose.divergence import log_ratio_bounds

        return log_ratio_bounds(model.family, model.target, jax.random.key(0), GLANCE_OUTER, GLANCE_INNER)[0].mean()

    def draw(self, model: Any, draws: Draws, folder: Path) -> None:
        from civi.inference.diagnose import log_q

        self.picture(_own(model.target), partial(log_q, model.family, model.target), draws, folder)

    def draw_comparison(self, target: Any, draws: Draws, folder: Path) -> None:
        if self.pictures:
            self.pictures(target, draws, folder)


def _own(target: Any) -> Any:
    """The target in its own coordinates."""
    from civi.problem.target import Framed

    return target.target if isinstance(target, Framed) else target
