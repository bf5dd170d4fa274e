"""UIVI (Titsias and Ruiz 2019): an unbiased gradient of the entropy by MCMC on the reverse conditional."""

from __future__ import annotations

from dataclasses import replace

from civi.estimate.reverse import Hmc
from civi.family import Architecture
from civi.objective import PathGradient
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def uivi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """UIVI: unbiased entropy gradient by HMC on q(eps | z), 5 burn-in and 5 kept draws, Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=PathGradient(Hmc()), update=defaults.update))
