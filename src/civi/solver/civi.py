"""CI-VI (Moens et al. 2021) with our default settings; the algorithm itself is in `civi.solver.engine`."""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.engine import CompositionalSolver


def civi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """CI-VI: tracked inner mean (bank of mixing outputs), safe bound, Adam."""
    return Method(family, CompositionalSolver(samples=defaults.samples, update=defaults.update))
