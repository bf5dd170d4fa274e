"""Primary updates by name."""

from __future__ import annotations

from civi.update.langevin import Langevin
from civi.update.rules import CiviAdam, FirstOrder

UPDATES: dict[str, type] = {"civi-adam": CiviAdam, "optax": FirstOrder, "langevin": Langevin}
