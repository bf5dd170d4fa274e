"""PVI (Lim and Johansen 2024): particles as mixing, so that the density of q is exact."""

from __future__ import annotations

from dataclasses import replace

from civi.estimate.fresh import Fresh
from civi.family import Architecture
from civi.objective import PathGradient
from civi.solver.base import DEFAULTS, Defaults, Method
from civi.solver.pathwise import PathwiseSolver
from civi.update import FirstOrder, Langevin


def pvi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """PVI: q is a mean over particles; path gradient, preconditioned Langevin for the particles, Adam for the rest."""
    with_particles = replace(family, mixing="particles")
    samples = replace(defaults.samples, inner=with_particles.particles, stages=None)
    others = defaults.update if isinstance(defaults.update, FirstOrder) else FirstOrder()
    solver = PathwiseSolver(samples=samples, objective=PathGradient(Fresh(own=False)), update=Langevin(others=others))
    return Method(with_particles, solver)
