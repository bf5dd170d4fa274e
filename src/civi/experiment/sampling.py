"""Runs of NUTS, the reference: draws of the posterior and their quality, without a family to train."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from civi.experiment.context import RunContext
from civi.experiment.plan import Plan
from civi.experiment.solver_result import Curve, SolverResult
from civi.inference.posterior import Posterior, SampledPosterior


def run_sampling(plan: Plan, source: Any, context: RunContext) -> tuple[Posterior, dict[str, Any]]:
    """All chains, from the cache if they have been run before; the posterior and the measures of the run."""
    begun, nuts = time.perf_counter(), plan.settings
    with context.console.status(f"{plan.task.name}: sampling {nuts.chains} chains"):
        reference = nuts.cached(plan.task.name, source, plan.seed)
    seconds, steps = time.perf_counter() - begun, nuts.warmup + nuts.draws
    message = f"{nuts.chains} chains of {nuts.draws} draws"
    measures = {"status": "finished", "steps": steps, "seconds": seconds, "seconds_per_step": seconds / steps}
    return SampledPosterior(reference=reference, message=message, seconds=seconds), {"message": message} | measures


def sample_seeds(plan: Plan, seeds: Sequence[int], progress: Callable[[int], None]) -> SolverResult:
    """The chains of every seed, measured as the other solvers are."""
    source, nuts = plan.source(), plan.settings
    begun = time.perf_counter()
    posteriors = [SampledPosterior(reference=nuts.cached(plan.task.name, source, seed)) for seed in seeds]
    seconds = (time.perf_counter() - begun) / len(seeds)
    pairs = zip(posteriors, seeds, strict=True)
    judged = [plan.task.judge(posterior, plan.keys(seed)[2:], "quick") for posterior, seed in pairs]
    never: list[int | None] = [None] * len(seeds)
    settings = plan.described()["settings"]
    measures = [one.measures for one in judged]
    return SolverResult(
        "nuts", measures, Curve(), never, seconds, 0.0, nuts.warmup + nuts.draws, settings, judged[0].shown
    )
