"""Objectives that are differentiated through the draws z(theta), for `civi.solver.pathwise`."""

from civi.objective.base import Pathwise, Prepared
from civi.objective.path import SCORES, PathGradient
from civi.objective.registry import PATHWISE

__all__ = ["PATHWISE", "SCORES", "PathGradient", "Pathwise", "Prepared"]
