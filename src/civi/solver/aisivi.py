"""AISIVI (Pielok et al. 2025): the path gradient with importance sampling from a learned reverse model."""

from __future__ import annotations

from dataclasses import replace

from civi.estimate.proposal import Proposal
from civi.family import Architecture
from civi.objective import PathGradient
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver


def aisivi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """AISIVI: path gradient, score of q by importance sampling from a learned flow tau(eps | z), Adam."""
    samples = replace(defaults.samples, stages=None)
    return Method(family, PathwiseSolver(samples=samples, objective=PathGradient(Proposal()), update=defaults.update))
