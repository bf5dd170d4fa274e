"""Explicit Gaussian families: without mixing, the inner mean is exact with a single sample."""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver
from civi.tracker import NoTracker
from civi.update import Samples


def _explicit(family: Architecture, conditional: str, defaults: Defaults) -> Method:
    without_mixing = replace(family, mixing="constant", conditional=conditional)
    solver = CompositionalSolver(samples=Samples(inner=1), tracker=NoTracker(), update=defaults.update)
    return Method(without_mixing, solver)


def mfvb(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """Mean-field Gaussian, reparameterised gradient, Adam."""
    return _explicit(family, "diagonal", defaults)


def fullrank(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """Full-rank Gaussian, reparameterised gradient, Adam."""
    return _explicit(family, "cholesky", defaults)
