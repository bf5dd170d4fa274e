"""What a task is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from civi.diagnose import Bounds

LogDensityOfQ = Callable[[Any], Any]
Draws = dict[str, "np.ndarray"]


@dataclass(frozen=True)
class Task:
    """A target, its entries of metrics.json (from draws and, where q has a density, bounds), and its figures.

    `draw` gets log q of points (None where q has no density) and the draws of one solver under its name;
    `draw_comparison` those of several. rank_by names the measure that orders a comparison, smaller is better; distance
    the one that draws alone can give. `options` says which data the task was made with.
    """

    name: str
    summary: str
    make: Callable[[], Any]
    measure: Callable[[Any, np.ndarray, Bounds | None], dict[str, Any]]
    draw: Callable[[Any, LogDensityOfQ | None, Draws, Path], list[Path]]
    rank_by: str
    draw_comparison: Callable[[Any, Draws, Path], list[Path]] | None = None
    distance: str = "sliced_wasserstein"
    objective_is_kl: bool = False
    draws: int = 4000
    options: dict[str, Any] = field(default_factory=dict)
