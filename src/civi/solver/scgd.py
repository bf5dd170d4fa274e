"""SCGD (Wang, Fang and Liu 2017): stochastic compositional gradient descent, the first to track an inner mean."""

from __future__ import annotations

from civi.family import Architecture
from civi.objective.compositional import LogTrick
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import Pool, Smoothed
from civi.update import FirstOrder


def scgd(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """SCGD: smoothing at theta_{t+1} with beta_t = t^-1/2, SGD with alpha_t ~ t^-3/4."""
    solver = CompositionalSolver(
        samples=defaults.samples,
        pool=Pool(switch_every=5),
        tracker=Smoothed(1.0, 1 / 2),
        objective=LogTrick("plain", "ratio"),
        update=FirstOrder("sgd", learning_rate=0.1, decay="power", power=3 / 4, clip=10.0),
    )
    return Method(family, solver)
