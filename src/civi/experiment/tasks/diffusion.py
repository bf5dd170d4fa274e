"""The conditioned diffusion, compared with NUTS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from civi.experiment.data.diffusion import DiffusionData, diffusion_path
from civi.experiment.report import DrawsBySolver
from civi.experiment.report.diffusion_figure import draw_paths
from civi.experiment.tasks.posterior import LogDensityOfQ, PosteriorTask
from civi.experiment.tasks.regression import REFERENCE_SEED
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.agreement import agreement
from civi.inference.diagnose.marginals import kernel_log_density
from civi.inference.nuts import Nuts, Reference
from civi.inference.posterior import Posterior, SampledPosterior
from civi.inference.report.content import fingerprints
from civi.problem.target import ConditionedDiffusion


@cache
def _load() -> DiffusionData:
    return diffusion_path()


@dataclass(frozen=True)
class DiffusionTask(PosteriorTask):
    """The path of a diffusion given observations, compared with a cached reference run of NUTS.

    The usual figure of the published comparisons, `marginal_log_density`, is that of `kernel_log_density` at the
    reference draws. `marginal_log_density_reference` is its value for the reference draws themselves, one half judged
    at the other.

    Attributes:
        reference_draws: draws per chain of the reference.
        reference_shown: number of reference draws in the report.
    """

    primary_metric: str = "sliced_wasserstein"
    secondary_metric: str = "mean_error_max"
    draws: int = 20_000
    reference_draws: int = 5000
    reference_shown: int = 4000

    def source(self) -> ConditionedDiffusion:
        return ConditionedDiffusion(jnp.asarray(_load().observations, float))

    def reference(self) -> Reference:
        """The reference draws of NUTS."""
        return Nuts(draws=self.reference_draws).cached(self.name, self.source(), REFERENCE_SEED)

    def measure(self, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
        reference = self.reference()
        every = reference.draws.reshape(-1, reference.draws.shape[-1])
        return {
            "reference_r_hat": float(reference.r_hat.max()),
            **agreement(draws, reference.draws),
            "marginal_log_density": kernel_log_density(draws, every[1::2]),
            "marginal_log_density_reference": kernel_log_density(every[::2], every[1::2]),
        }

    def truth(self, posterior: Posterior) -> dict[str, Any]:
        known: dict[str, Any] = {"names": [f"u({time:.2f})" for time in _load().times]}
        known["fingerprints"] = fingerprints(_load())
        own = isinstance(posterior, SampledPosterior)
        return known if own else known | {"reference": self.reference().pooled(self.reference_shown)}

    def picture(self, log_q: LogDensityOfQ | None, draws: DrawsBySolver, folder: Path) -> list[Path]:
        return self._figure(draws, folder)

    def draw_comparison(self, draws: DrawsBySolver, folder: Path) -> None:
        self._figure(draws, folder)

    def _figure(self, draws: DrawsBySolver, folder: Path) -> list[Path]:
        reference = self.reference().pooled(len(next(iter(draws.values()))))
        return [draw_paths(reference, draws, _load(), folder / "paths.png")]


def diffusion(name: str) -> DiffusionTask:
    """The task of this name."""
    return DiffusionTask(name)
