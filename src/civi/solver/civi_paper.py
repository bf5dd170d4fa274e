"""CI-VI as the paper writes it (Moens et al. 2021): Algorithm 1 without the departures of the default solver `civi`."""

from __future__ import annotations

from civi.family import Architecture
from civi.objective.compositional import LogTrick
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import Extrapolated, Pool
from civi.update import CiviAdam


def civi_paper(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """CI-VI as written: extrapolation-smoothing, plain inner mean, the paper's update with the theorem's schedules.

    The constants are those of most of the paper's tables (C_beta 0.999, C_gamma 0.9, C_alpha 3e-4); the recipe `paper`
    has those of every task. nu is drawn with replacement from a chunk that is kept for 5 steps.
    """
    solver = CompositionalSolver(
        samples=defaults.samples,
        pool=Pool(switch_every=5, draw="uniform"),
        tracker=Extrapolated(0.999),
        objective=LogTrick("plain", "ratio"),
        update=CiviAdam(),
    )
    return Method(family, solver)
