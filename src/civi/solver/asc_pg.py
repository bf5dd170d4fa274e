"""ASC-PG (Wang, Liu and Fang 2017): accelerated stochastic compositional proximal gradient."""

from __future__ import annotations

from civi.family import Architecture
from civi.objective.compositional import LogTrick
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import Extrapolated, Pool
from civi.update import FirstOrder


def asc_pg(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """ASC-PG: extrapolation with beta_t = t^-4/9, SGD with alpha_t ~ t^-5/9, proximal step for l1 and l2."""
    solver = CompositionalSolver(
        samples=defaults.samples,
        pool=Pool(switch_every=5),
        tracker=Extrapolated(1.0, 4 / 9),
        objective=LogTrick("plain", "ratio"),
        update=FirstOrder("sgd", learning_rate=0.03, decay="power", power=5 / 9, clip=10.0),
    )
    return Method(family, solver)
