"""The base class of tasks: something to fit, how the result is evaluated, and its figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array

from civi.experiment.report import DrawsBySolver
from civi.inference.report.content import Content

Advance = Callable[[int, int], None]
Effort = Literal["full", "quick"]


class Evaluation(NamedTuple):
    """The evaluation of a posterior.

    Attributes:
        measures: entries of metrics.json.
        draws: draws of z for draws.nc.
        shown: draws of z for figures.
    """

    measures: dict[str, Any]
    draws: np.ndarray
    shown: np.ndarray


@dataclass(frozen=True)
class Task(ABC):
    """Something to fit, with its evaluation.

    Attributes:
        name: name of the task.
        primary_metric: the measure that ranks a comparison; smaller is better.
        secondary_metric: another measure that a comparison shows.
        objective_is_kl: whether neg_elbo is KL(q || p), because the target is normalised.
        options: entries of config.json that say which data the task was made with.
        settings: settings as name=value that the task's data need; those of the user come after them.
    """

    name: str
    primary_metric: str
    secondary_metric: str
    objective_is_kl: bool = field(default=False, kw_only=True)
    options: dict[str, Any] = field(default_factory=dict, kw_only=True)
    settings: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def source(self) -> Any:
        """The target, or the data of an autoencoder."""

    @abstractmethod
    def evaluate(self, posterior: Any, keys: Any, effort: Effort, advance: Advance | None = None) -> Evaluation:
        """Evaluate a posterior.

        Args:
            posterior: the posterior.
            keys: two random keys, for the measures and for the draws.
            effort: full for a run; quick for a comparison, which uses smaller samples.
            advance: called as `advance(done, total)` to report progress.
        """

    @abstractmethod
    def quick_neg_elbo(self, problem: Any) -> Array:
        """A cheap estimate of neg_elbo, the same for all solvers and steps; it can be compiled."""

    @abstractmethod
    def draw(self, posterior: Any, draws: DrawsBySolver, folder: Path) -> None:
        """Draw the figures of a run; `draws` has one entry, the solver of the run."""

    def content(self, posterior: Any, evaluation: Evaluation, key: Any) -> Content:
        """What the report of a run shows.

        Args:
            posterior: the posterior.
            evaluation: its evaluation.
            key: random key.
        """
        return posterior.content(key, self.name)

    def draw_comparison(self, draws: DrawsBySolver, folder: Path) -> None:
        """Draw figures of several solvers in addition to the learning curves; none by default."""
        return
