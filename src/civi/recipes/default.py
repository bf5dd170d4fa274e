"""The default recipe: what measured best over all tasks, with no tuning per task.

tracker   bank of 10 steps: KL on the banana 0.005, where 100 fresh samples give 0.018 (docs/trackers.md)
family    scale depends on eps; many narrow conditionals spread wide at the start, so that no mode is lost
          regression: correlations in a frame besides, as the posterior has one mode and many dimensions
pilot     regression: Laplace, so that the scale of the data does not matter; not for mean field, whose independence
          would then hold in the pilot's coordinates and not in the user's
update    Adam 1e-2 with cosine decay to 0
"""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.pilot import Laplace
from civi.solver import SOLVERS, Settings

REGRESSIONS = {"spam": 3, "nodal": 3, "nodal-25": 3, "waveform": 10, "regression": 10}
EXPLICIT = ("mfvb", "nuts")


def default(task: str, solver: str) -> Settings:
    """Ours: robust."""
    if task not in REGRESSIONS:
        return SOLVERS[solver](Architecture())
    settings = SOLVERS[solver](Architecture.in_frame(REGRESSIONS[task]))
    return settings if solver in EXPLICIT else replace(settings, pilot=Laplace())
