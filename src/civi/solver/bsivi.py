"""BSIVI (Pielok et al. 2025): the path gradient with fresh inner samples."""

from __future__ import annotations

from civi.family import Architecture
from civi.objective import PathGradient
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def bsivi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """BSIVI: path gradient, score of q from fresh inner samples and the own one, Adam."""
    return Method(family, PathwiseSolver(samples=defaults.samples, objective=PathGradient(), update=defaults.update))
