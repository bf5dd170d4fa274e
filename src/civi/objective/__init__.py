"""Objectives that are differentiated through the draws z(theta), for `civi.solver.pathwise`."""

from civi.objective.base import Pathwise, Prepared
from civi.objective.fisher import Fisher
from civi.objective.kernel_path import KernelPath
from civi.objective.kernel_stein import KernelStein
from civi.objective.path import SCORES, PathGradient
from civi.objective.registry import PATHWISE
from civi.objective.reverse_bound import ReverseBound

__all__ = [
    "PATHWISE",
    "SCORES",
    "Fisher",
    "KernelPath",
    "KernelStein",
    "PathGradient",
    "Pathwise",
    "Prepared",
    "ReverseBound",
]
