"""Nested Monte Carlo (NMC-1 to NMC-3 in the paper): the log of a plain mean of fresh inner samples, which is biased."""

from __future__ import annotations

from civi.family import Architecture
from civi.objective.compositional import LogTrick
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import NoTracker
from civi.update import FirstOrder, Samples, Update


def _nested(family: Architecture, samples: Samples, update: Update) -> Method:
    objective = LogTrick("plain", "ratio")
    return Method(family, CompositionalSolver(samples=samples, tracker=NoTracker(), objective=objective, update=update))


def nmc_adam(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """NMC-1: plain nested Monte Carlo with Adam."""
    return _nested(family, defaults.samples, defaults.update)


def nmc_rmsprop(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """NMC-2: plain nested Monte Carlo with RMSProp."""
    return _nested(family, defaults.samples, FirstOrder("rmsprop", learning_rate=1e-3))


def nmc_sgd(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """NMC-3: plain nested Monte Carlo with SGD."""
    return _nested(family, defaults.samples, FirstOrder("sgd", learning_rate=1e-2, clip=10.0))
