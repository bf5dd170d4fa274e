"""What a task is: something to fit, what is measured on the result, and its figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array

DrawsBySolver = Mapping[str, np.ndarray]
Advance = Callable[[int, int], None]
Effort = Literal["full", "quick"]


class Judged(NamedTuple):
    """Entries of metrics.json, the draws of z for draws.nc, and those that figures show."""

    measures: dict[str, Any]
    draws: np.ndarray
    shown: np.ndarray


@dataclass(frozen=True)
class Task(ABC):
    """Something to fit, by name.

    primary_metric orders a comparison, smaller is better; secondary_metric is shown with it. `options` says which data
    the task was made with. `objective_is_kl` says that neg_elbo is KL(q || p), as the target is normalised.
    """

    name: str
    primary_metric: str
    secondary_metric: str
    objective_is_kl: bool = field(default=False, kw_only=True)
    options: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def source(self) -> Any:
        """The target, or the data of an autoencoder."""

    @abstractmethod
    def judge(self, posterior: Any, keys: Any, effort: Effort, advance: Advance | None = None) -> Judged:
        """Measure a posterior with two random keys (measures, draws).

        With effort = quick, in a comparison, a smaller sample will do. `advance(done, total)` is called with the
        progress.
        """

    @abstractmethod
    def quick_neg_elbo(self, problem: Any) -> Array:
        """neg_elbo by an estimator that is the same for all solvers and steps; cheap, and can be compiled."""

    @abstractmethod
    def draw(self, posterior: Any, draws: DrawsBySolver, folder: Path) -> None:
        """The figures of a run, with the draws of one solver under its name."""

    def draw_comparison(self, draws: DrawsBySolver, folder: Path) -> None:
        """Figures of several solvers; by default none besides the curves."""
        return
