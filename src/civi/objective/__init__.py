"""Objectives: compositional ones for `civi.solver.engine`, and pathwise ones for `civi.solver.pathwise`.

The gradient of a compositional objective uses a tracked inner mean; that of a pathwise one flows through z(theta).
"""

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
