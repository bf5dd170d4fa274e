"""SIVI-SM (Yu and Zhang 2023): Fisher divergence as a game between q and a network."""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.objective import Fisher
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def sivi_sm(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """SIVI-SM: Fisher divergence, minimax with a network that plays the difference of the scores, Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=Fisher(), update=defaults.update))
