"""KPG (Pielok et al. 2026): the path gradient with a kernel mean of the difference of the scores."""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.objective import KernelPath
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def kpg(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """KPG: kernel path gradient, median bandwidth, Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=KernelPath(), update=defaults.update))
