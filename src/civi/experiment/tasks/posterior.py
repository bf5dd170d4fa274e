"""Tasks with a single posterior, whose draws and density are compared with the truth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from civi.experiment.report import DrawsBySolver
from civi.experiment.tasks.base import Advance, Effort, Evaluation, Task
from civi.inference.diagnose import Bounds
from civi.inference.diagnose.divergence import log_ratio_bounds
from civi.inference.diagnose.trust import reference_findings
from civi.inference.posterior import Posterior, SampledPosterior, SemiImplicitPosterior
from civi.inference.report.content import Content

LogDensityOfQ = Callable[[Any], Any]
CLOSE = 0.1


@dataclass(frozen=True)
class PosteriorTask(Task):
    """A task with one target.

    Attributes:
        draws: number of draws that are compared with the truth.
        outer: number of draws for the bounds on neg_elbo.
        inner: number of inner samples per draw for the bounds on neg_elbo.
        few_inner: number of inner samples that a comparison tries first; it uses `inner` only if the gap between the
            bounds is large. None: always `inner`.
        quick_outer: `outer` for learning curves.
        quick_inner: `inner` for learning curves.
    """

    draws: int = 4000
    outer: int = 10_000
    inner: int = 20_000
    few_inner: int | None = None
    quick_outer: int = 1000
    quick_inner: int = 2000

    @abstractmethod
    def measure(self, draws: np.ndarray, bounds: Bounds | None) -> dict[str, Any]:
        """Entries of metrics.json.

        Args:
            draws: draws of q.
            bounds: bounds on neg_elbo; None if q has no density.
        """

    def measure_density(self, log_q: LogDensityOfQ) -> dict[str, Any]:
        """Entries of metrics.json that need the log density of q at given points; none by default."""
        return {}

    @abstractmethod
    def picture(self, log_q: LogDensityOfQ | None, draws: DrawsBySolver, folder: Path) -> list[Path]:
        """Draw the figures of a run.

        Args:
            log_q: the log density of q; None if q has no density.
            draws: draws of one solver, by its name.
            folder: where the figures are written.

        Returns:
            The image files.
        """

    def evaluate(self, posterior: Posterior, keys: Any, effort: Effort, advance: Advance | None = None) -> Evaluation:
        measure_key, draw_key = keys
        draws = posterior.draws_to_measure(draw_key, self.draws)
        bounds = self._bounds(posterior, measure_key, effort)
        measures: dict[str, Any] = {
            "neg_elbo": bounds.upper if bounds else None,
            "neg_elbo_se": bounds.upper_se if bounds else None,
        }
        if isinstance(posterior, SampledPosterior):
            measures |= posterior.chain_measures() | self.measure(draws, None)
            return Evaluation(measures, posterior.reference.draws, draws)
        measures |= self.measure(draws, bounds) | self.measure_density(posterior.log_density)
        return Evaluation(measures, draws, draws)

    def _bounds(self, posterior: Posterior, key: Any, effort: Effort) -> Bounds | None:
        """Bounds on neg_elbo; comparisons use `few_inner` samples if the gap is at most CLOSE times neg_elbo."""
        if self.few_inner is not None and effort == "quick":
            found = posterior.bounds(key, self.outer, self.few_inner)
            if found is None or not found.upper - found.lower > CLOSE * found.upper:
                return found
        return posterior.bounds(key, self.outer, self.inner)

    def content(self, posterior: Posterior, evaluation: Evaluation, key: Any) -> Content:
        """The content with one set of draws, and with the truth if it is known."""
        if isinstance(posterior, SemiImplicitPosterior):
            found = posterior.content(key, self.name, sets=1)
        else:
            found = posterior.content(key, self.name)
        known = self.truth(posterior)
        reference = known.get("reference")
        if reference is None:
            return replace(found, **known)
        judged = reference_findings(evaluation.shown, reference, known.get("names", found.names))
        return replace(found, findings=[*judged, *found.findings], **known)

    def truth(self, posterior: Posterior) -> dict[str, Any]:
        """Fields of the report's content that say what is known about the target; none by default."""
        return {}

    def quick_neg_elbo(self, problem: Any) -> Array:
        key = jax.random.key(0)
        return log_ratio_bounds(problem.family, problem.target, key, self.quick_outer, self.quick_inner)[0].mean()

    def draw(self, posterior: Posterior, draws: DrawsBySolver, folder: Path) -> None:
        has_density = not isinstance(posterior, SampledPosterior)
        self.picture(posterior.log_density if has_density else None, draws, folder)
