"""Pathwise objectives by name."""

from __future__ import annotations

from civi.objective.fisher import Fisher
from civi.objective.kernel_path import KernelPath
from civi.objective.kernel_stein import KernelStein
from civi.objective.path import PathGradient
from civi.objective.reverse_bound import ReverseBound

PATHWISE: dict[str, type] = {
    "path": PathGradient,
    "kernel-path": KernelPath,
    "kernel-stein": KernelStein,
    "fisher": Fisher,
    "reverse-bound": ReverseBound,
}
