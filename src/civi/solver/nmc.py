"""Nested Monte Carlo (NMC-1, -2, -3 of the paper): the plain mean of fresh inner samples, biased by its logarithm."""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import Settings
from civi.solver.civi import Civi
from civi.tracker import NoTracker
from civi.update import FirstOrder


def _nested(family: Architecture, update: FirstOrder) -> Settings:
    return Settings(family, Civi(inner_mean="plain", tracker=NoTracker(), weigh="ratio", update=update))


def nmc_adam(family: Architecture) -> Settings:
    """NMC-1: plain nested Monte Carlo with Adam."""
    return _nested(family, FirstOrder("adam"))


def nmc_rmsprop(family: Architecture) -> Settings:
    """NMC-2: plain nested Monte Carlo with RMSProp."""
    return _nested(family, FirstOrder("rmsprop", learning_rate=1e-3))


def nmc_sgd(family: Architecture) -> Settings:
    """NMC-3: plain nested Monte Carlo with SGD."""
    return _nested(family, FirstOrder("sgd", learning_rate=1e-2, clip=10.0))
