"""What a comparison knows of each solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Compared(Protocol):
    """What a comparison asks of its task: its name, the measures to show, and whether neg_elbo is KL(q || p)."""

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
    """neg_elbo (upper bound, common estimator) of every seed after given steps and seconds."""

    step: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    neg_elbo: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class SolverResult:
    """One solver's row: measures by seed, curve, the step at which each seed diverged, if it did; seed 0's draws.

    epochs_a_step is the share of the data that a step sees, where it sees a batch.
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
        """A measure of the seeds that did not diverge; empty if this solver does not have it."""
        rows = [m for m, diverged in zip(self.measures, self.diverged, strict=True) if diverged is None]
        return np.array([row[measure] for row in rows if measure in row])

    def as_json(self) -> dict[str, Any]:
        """The outcome as it stands in comparison.json."""
        content = {**vars(self), "curve": vars(self.curve)}
        return {name: value for name, value in content.items() if name != "draws"}


def ranked(outcomes: Sequence[SolverResult], measure: str) -> list[SolverResult]:
    """Smallest mean first; those that have the measure for fewer seeds, or not at all, after those that have it."""

    def order(outcome: SolverResult) -> tuple[int, float]:
        values = outcome.values(measure)
        return -len(values), float(values.mean()) if len(values) else np.inf

    return sorted(outcomes, key=order)
