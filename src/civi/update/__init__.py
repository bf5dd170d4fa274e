"""Primary updates (Optax transformations) and the paper's schedules."""

from civi.update.civi_adam import civi_adam
from civi.update.groups import ByGroup, PerGroup
from civi.update.langevin import Langevin
from civi.update.registry import UPDATES
from civi.update.rules import CiviAdam, FirstOrder, Update
from civi.update.schedule import Samples, SampleSizes

__all__ = [
    "UPDATES",
    "ByGroup",
    "CiviAdam",
    "FirstOrder",
    "Langevin",
    "PerGroup",
    "SampleSizes",
    "Samples",
    "Update",
    "civi_adam",
]
