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

from civi.errors import SettingError
from civi.family import Architecture
from civi.family.autoencoder import ImageArchitecture
from civi.pilot import Laplace
from civi.solver import SOLVERS, Settings
from civi.update import FirstOrder

IMAGES = ("mnist", "mnist-dynamic", "fashion-mnist")
REGRESSIONS = {"spam": 3, "nodal": 3, "nodal-25": 3, "waveform": 10, "regression": 10}
EXPLICIT = ("mfvb", "nuts")


def default(task: str, solver: str) -> Settings:
    """Ours: robust."""
    if task in IMAGES:
        return _autoencoder(task, solver)
    if task not in REGRESSIONS:
        return SOLVERS[solver](Architecture())
    settings = SOLVERS[solver](Architecture.in_frame(REGRESSIONS[task]))
    return settings if solver in EXPLICIT else replace(settings, pilot=Laplace())


def _autoencoder(task: str, solver: str) -> Settings:
    """A batch of 300 images with 30 inner samples each, as in appendix B."""
    if solver == "nuts":
        raise SettingError(f"nuts samples one posterior, and {task} has one for every image: choose another solver")
    settings = SOLVERS[solver](ImageArchitecture())
    inner = 1 if solver in EXPLICIT else 30
    samples = replace(settings.solver.samples, outer=300, inner=inner, batch=300, stages=())
    method = replace(settings.solver, steps=18_000, samples=samples)
    if isinstance(method.update, FirstOrder) and method.update.rule == "adam":
        method = replace(method, update=replace(method.update, learning_rate=1e-3))
    family = replace(settings.family, conditional="scaled") if solver == "mfvb" else settings.family
    return replace(settings, family=family, solver=method)
