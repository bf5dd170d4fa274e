"""The result of one solver in a comparison, and the ranking of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Compared(Protocol):
    """The part of a task that a comparison needs: its name, its metrics, and whether neg_elbo is KL(q || p)."""

    @property
    def name(self) -> str: ...

    @property
    def primary_metric(self) -> str: ...

    @property
    def secondary_metric(self) -> str: ...

    @property
    def objective_is_kl(self) -> bool: ...


@dataclass(frozen=True)
class Curve:
    """neg_elbo of every seed after the given steps and seconds: an upper bound by the estimator that all share."""

    step: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    neg_elbo: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class SolverResult:
    """The result of one solver over all seeds.

    Attributes:
        solver: name of the solver.
        measures: the entries of metrics.json, per seed.
        curve: the learning curves.
        diverged: the step at which each seed diverged; None if it did not.
        seconds: seconds per seed.
        compile_seconds: seconds of compilation.
        steps: number of steps.
        settings: the settings, as in config.json.
        draws: draws of the first seed, for figures.
        epochs_a_step: fraction of the data that one step uses; None if a step uses all of it.
    """

    solver: str
    measures: list[dict[str, Any]]
    curve: Curve
    diverged: list[int | None]
    seconds: float
    compile_seconds: float
    steps: int
    settings: dict[str, Any]
    draws: np.ndarray
    epochs_a_step: float | None = None

    def values(self, measure: str) -> np.ndarray:
        """The values of a measure for the seeds that did not diverge; empty if the solver does not report it."""
        rows = [m for m, diverged in zip(self.measures, self.diverged, strict=True) if diverged is None]
        return np.array([row[measure] for row in rows if measure in row])

    def as_json(self) -> dict[str, Any]:
        """The entry of comparison.json."""
        content = {**vars(self), "curve": vars(self.curve)}
        return {name: value for name, value in content.items() if name != "draws"}


def ranked(results: Sequence[SolverResult], measure: str) -> list[SolverResult]:
    """Sort by the mean of a measure, smallest first; solvers with fewer seeds that report it come later."""

    def order(result: SolverResult) -> tuple[int, float]:
        values = result.values(measure)
        return -len(values), float(values.mean()) if len(values) else np.inf

    return sorted(results, key=order)
