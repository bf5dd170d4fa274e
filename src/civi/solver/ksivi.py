"""KSIVI (Cheng et al. 2024): kernel Stein discrepancy between two batches."""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.objective import KernelStein
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def ksivi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """KSIVI: kernel Stein discrepancy of two batches, median bandwidth, Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=KernelStein(), update=defaults.update))
