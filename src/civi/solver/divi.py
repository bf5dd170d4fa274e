"""DIVI: the path gradient with a network that is fitted to the scores of the conditional."""

from __future__ import annotations

from dataclasses import replace

from civi.estimate.regression import Regression
from civi.family import Architecture
from civi.objective import PathGradient
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def divi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """DIVI: path gradient, score of q by regression of the conditional scores on z, Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=PathGradient(Regression()), update=defaults.update))
