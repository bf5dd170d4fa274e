"""Toy tasks: those of appendix B of the paper, a ring of separated modes, and heavy tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from civi.experiment.report import DrawsBySolver
from civi.experiment.report.toy_figure import densities, draw_solvers, draw_toy
from civi.experiment.tasks.posterior import LogDensityOfQ, PosteriorTask
from civi.inference.diagnose import Bounds, sliced_wasserstein
from civi.inference.diagnose.divergence import mean_and_se
from civi.inference.diagnose.marginals import tail_ratios
from civi.inference.posterior import Posterior, SampledPosterior
from civi.problem.target import (
    GaussianMixture,
    SampledTarget,
    StudentProduct,
    banana,
    eight_gaussians,
    star,
    student,
    two_modal,
)

TARGETS: dict[str, Callable[[], SampledTarget]] = {
    "two-modal": two_modal,
    "star": star,
    "banana": banana,
    "eight-gaussians": eight_gaussians,
    "student": student,
}


@dataclass(frozen=True)
class ToyTask(PosteriorTask):
    """A normalised two-dimensional target, evaluated by KL(q || p) and the distance to exact draws.

    A ring of modes is evaluated by the share of draws at each mode too, and heavy tails by their quantiles: with
    infinite variance, the distance to exact draws has no limit. With 300,000 inner samples, the gap between the bounds
    on KL is about a tenth of the KL of the default recipe; most other solvers need fewer for that.
    """

    primary_metric: str = "kl"
    secondary_metric: str = "sliced_wasserstein"
    outer: int = 20_000
    inner: int = 300_000
    few_inner: int | None = 20_000
    objective_is_kl: bool = field(default=True, kw_only=True)

    def source(self) -> SampledTarget:
        return TARGETS[self.name]()

    def measure(self, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
        target = self.source()
        exact_key, other_key, slice_key = jax.random.split(jax.random.key(0), 3)
        exact, other = target.sample(exact_key, len(draws)), target.sample(other_key, len(draws))
        distance = {
            "sliced_wasserstein": sliced_wasserstein(draws, exact, slice_key),
            "sliced_wasserstein_floor": sliced_wasserstein(other, exact, slice_key),
        }
        distance |= shape_measures(target, draws)
        if bounds is None:
            return distance
        kl = {"kl": bounds.upper, "kl_se": bounds.upper_se, "kl_lower": bounds.lower, "kl_lower_se": bounds.lower_se}
        return kl | distance

    def measure_density(self, log_q: LogDensityOfQ) -> dict[str, Any]:
        """KL(p || q) from exact draws; an upper bound in expectation, because log q is that of a plain inner mean."""
        target = self.source()
        z_J = target.sample(jax.random.key(1), self.outer)
        log_ratio_J = jax.vmap(target.log_prob)(z_J) - log_q(z_J)
        return dict(zip(("kl_forward", "kl_forward_se"), mean_and_se(log_ratio_J), strict=True))

    def truth(self, posterior: Posterior) -> dict[str, Any]:
        target = self.source()
        exact = np.asarray(target.sample(jax.random.key(0), self.draws))
        log_q: Any = None if isinstance(posterior, SampledPosterior) else posterior.log_density
        known = {"reference": exact, "reference_name": "exact draws", "objective": "KL(q || p), nats"}
        return known | {"names": ["z[0]", "z[1]"], "plane": densities(target, log_q)}

    def picture(self, log_q: LogDensityOfQ | None, draws: DrawsBySolver, folder: Path) -> list[Path]:
        ((solver, of_solver),) = draws.items()
        return [draw_toy(self.source(), log_q, of_solver, folder / "density.png", self.name, solver)]

    def draw_comparison(self, draws: DrawsBySolver, folder: Path) -> None:
        draw_solvers(self.source(), draws, folder / "draws.png", self.name)


def shape_measures(target: SampledTarget, draws: np.ndarray) -> dict[str, float]:
    """Measures of the shape that KL and distances do not show: coverage of separated modes, and tails.

    mode_share_min and mode_share_max are the shares of draws that are nearest to a mode, relative to equal shares; they
    are given for more than two modes. tail_ratio_LEVEL is described in `tail_ratios`.
    """
    if isinstance(target, GaussianMixture) and len(target.means) > 2:
        distance = np.linalg.norm(draws[:, None] - np.asarray(target.means), axis=2)
        share = np.bincount(distance.argmin(1), minlength=len(target.means)) * len(target.means) / len(draws)
        return {"mode_share_min": float(share.min()), "mode_share_max": float(share.max())}
    if isinstance(target, StudentProduct):
        return tail_ratios(draws @ np.asarray(target.whitening).T, target.freedom)
    return {}


def toy(name: str) -> ToyTask:
    """The task of this name; extreme quantiles need more draws."""
    return ToyTask(name, draws=20_000) if name == "student" else ToyTask(name)
