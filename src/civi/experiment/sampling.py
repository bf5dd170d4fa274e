"""Runs of NUTS, the reference method: posterior draws and convergence diagnostics, without training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from civi.experiment.context import RunContext
from civi.experiment.plan import Plan
from civi.experiment.solver_result import Curve, SolverResult
from civi.inference.posterior import Posterior, SampledPosterior


def run_sampling(plan: Plan, source: Any, context: RunContext) -> tuple[Posterior, dict[str, Any]]:
    """Sample all chains, or load them from the cache.

    Args:
        plan: what to run.
        source: the target.
        context: the console.

    Returns:
        The posterior, and status and times for metrics.json.
    """
    begun, nuts = time.perf_counter(), plan.settings
    with context.console.status(f"{plan.task.name}: sampling {nuts.chains} chains"):
        reference = nuts.cached(plan.task.name, source, plan.seed)
    seconds, steps = time.perf_counter() - begun, nuts.warmup + nuts.draws
    message = f"{nuts.chains} chains of {nuts.draws} draws"
    measures = {"status": "finished", "steps": steps, "seconds": seconds, "seconds_per_step": seconds / steps}
    return SampledPosterior(reference=reference, message=message, seconds=seconds), {"message": message} | measures


def sample_seeds(plan: Plan, seeds: Sequence[int], progress: Callable[[str], None]) -> SolverResult:
    """Sample the chains of every seed and evaluate them in the same way as the trained solvers.

    Args:
        plan: what to run; its own seed is not used.
        seeds: the seeds.
        progress: called with a description of the current work.
    """
    source, nuts = plan.source(), plan.settings
    begun = time.perf_counter()
    posteriors = []
    for i, seed in enumerate(seeds):
        progress(f"sampling, seed {i + 1} of {len(seeds)}")
        posteriors.append(SampledPosterior(reference=nuts.cached(plan.task.name, source, seed)))
    seconds = (time.perf_counter() - begun) / len(seeds)
    progress("measuring")
    pairs = zip(posteriors, seeds, strict=True)
    evaluated = [plan.task.evaluate(posterior, plan.keys(seed)[2:], "quick") for posterior, seed in pairs]
    never: list[int | None] = [None] * len(seeds)
    settings = plan.described()["settings"]
    measures = [one.measures for one in evaluated]
    return SolverResult(
        "nuts", measures, Curve(), never, seconds, 0.0, nuts.warmup + nuts.draws, settings, evaluated[0].shown
    )
