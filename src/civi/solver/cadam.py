"""C-ADAM (Tutunov et al. 2020): compositional ADAM, which is CI-VI without sketching and with a single chunk."""

from __future__ import annotations

from civi.family import Architecture
from civi.objective.compositional import LogTrick
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import Extrapolated, Pool
from civi.update import CiviAdam


def cadam(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """C-ADAM: extrapolation-smoothing on one fixed pool, ADAM-like update with the theorem's schedules."""
    solver = CompositionalSolver(
        samples=defaults.samples,
        pool=Pool(size=256, chunk=256, switch_every=None, draw="uniform"),
        tracker=Extrapolated(0.9),
        objective=LogTrick("plain", "ratio"),
        update=CiviAdam(),
    )
    return Method(family, solver)
