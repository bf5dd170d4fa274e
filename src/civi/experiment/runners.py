"""The runner of each kind of method: solvers train, NUTS samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from civi.experiment.context import RunContext
from civi.experiment.plan import Plan
from civi.experiment.sampling import run_sampling, sample_seeds
from civi.experiment.solver_result import SolverResult
from civi.experiment.training import run_training, train_seeds
from civi.inference.nuts import Nuts
from civi.inference.posterior import Posterior
from civi.inference.settings import Settings


class Runner(NamedTuple):
    """`run` does one run with its files; `run_seeds` runs several seeds for a comparison and writes no files."""

    run: Callable[[Plan, Any, RunContext], tuple[Posterior, dict[str, Any]]]
    run_seeds: Callable[[Plan, Sequence[int], Callable[[str], None]], SolverResult]


RUNNERS: dict[type, Runner] = {Settings: Runner(run_training, train_seeds), Nuts: Runner(run_sampling, sample_seeds)}


def runner_of(plan: Plan) -> Runner:
    """The runner for the plan's settings."""
    return RUNNERS[type(plan.settings)]
