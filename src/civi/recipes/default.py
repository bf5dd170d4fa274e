"""The default recipe: what measured best over all tasks, with no tuning per task.

tracker   bank of 10 steps: KL on the banana 0.005, where 100 fresh samples give 0.018 (docs/trackers.md)
family    scale depends on eps; many narrow conditionals spread wide at the start, so that no mode is lost
update    Adam 1e-2 with cosine decay to 0
"""

from __future__ import annotations

from civi.family import Architecture
from civi.solver import SOLVERS, Settings


def default(task: str, solver: str) -> Settings:
    """Ours: robust."""
    return SOLVERS[solver](Architecture())
