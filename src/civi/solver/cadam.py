"""C-ADAM (Tutunov et al. 2020): compositional ADAM, CI-VI without sketching and without chunks of a pool."""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import Settings
from civi.solver.civi import Civi
from civi.tracker import Extrapolated, Pool
from civi.update import CiviAdam


def cadam(family: Architecture) -> Settings:
    """C-ADAM: extrapolation-smoothing on one fixed pool, ADAM-like update with the theorem's schedules."""
    pool = Pool(size=256, chunk=256, switch_every=1_000_000, draw="uniform")
    solver = Civi(pool=pool, inner_mean="plain", tracker=Extrapolated(0.9), weigh="ratio", update=CiviAdam())
    return Settings(family, solver)
