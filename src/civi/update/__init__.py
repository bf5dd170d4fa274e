"""Primary updates (Optax transformations) and the paper's schedules."""

from civi.update.civi_adam import civi_adam
from civi.update.rules import UPDATES, CiviAdam, FirstOrder, Update
from civi.update.schedule import Samples

__all__ = ["UPDATES", "CiviAdam", "FirstOrder", "Samples", "Update", "civi_adam"]
