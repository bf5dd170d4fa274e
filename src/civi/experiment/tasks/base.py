"""What a task is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

Draws = dict[str, "np.ndarray"]
Advance = Callable[[int, int], None]


class Judged(NamedTuple):
    """Entries of metrics.json and the draws of z for draws.nc."""

    measures: dict[str, Any]
    draws: np.ndarray


@dataclass(frozen=True)
class Task(ABC):
    """A target, what is measured on a fitted model, and its figures.

    rank_by names the measure that orders a comparison, smaller is better; beside another one that is shown.
    `options` says which data the task was made with.
    """

    name: str
    summary: str
    make: Callable[[], Any]
    rank_by: str
    beside: str
    objective_is_kl: bool = field(default=False, kw_only=True)
    options: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def judge(self, model: Any, keys: Any, advance: Advance | None = None) -> Judged:
        """Measure a fitted model with two random keys (measures, draws); `advance(done, of)` is told how far it is.

        Without `advance`, in a comparison, a task may take a smaller sample.
        """

    @abstractmethod
    def glance(self, model: Any) -> Any:
        """neg_elbo by an estimator that is the same for all solvers and steps; cheap, and can be compiled."""

    @abstractmethod
    def draw(self, model: Any, draws: Draws, folder: Path) -> None:
        """The figures of a run, with the draws of one solver under its name."""

    def draw_comparison(self, target: Any, draws: Draws, folder: Path) -> None:
        """Figures of several solvers; by default none besides the curves."""
        return
