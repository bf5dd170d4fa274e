"""IWHVI (Sobolev and Vetrov 2019): an upper bound on log q(z) with a learned reverse model."""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.objective import ReverseBound
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def iwhvi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """IWHVI: importance-weighted bound with a learned flow tau(eps | z), trained on the same bound, Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=ReverseBound(), update=defaults.update))
