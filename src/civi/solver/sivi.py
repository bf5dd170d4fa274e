"""SIVI (Yin and Zhou 2018): the surrogate bound with the own term, with a growing number of fresh inner samples.

A first stage with one inner sample (samples.stages=1,50,100) would optimise the mean-field bound. On the star, this
collapses the mixing to one Gaussian, from which the later stages do not recover.
"""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import NoTracker
from civi.update import Samples


def sivi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """SIVI: own-term bound, no tracking, K2 = 25, 50, 100 in three stages (or the recipe's stages), Adam."""
    samples = defaults.samples if defaults.samples.stages else Samples(stages=(25, 50, 100))
    return Method(family, CompositionalSolver(samples=samples, tracker=NoTracker(), update=defaults.update))
