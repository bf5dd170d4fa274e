"""Compositional optimisation of any E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ] from samples of f and g.

    oracles -> sketch -> gradient -> primary update -> auxiliary update

`problems` has two with known answers; `python -m civi.compositional` compares the methods on them.
"""

from civi.compositional.loop import Result, minimise
from civi.compositional.methods import METHODS, AscPg, Cadam, Civi, Method, Nmc, Scgd
from civi.compositional.problem import Problem
from civi.update.proximal import proximal

__all__ = [
    "METHODS",
    "AscPg",
    "Cadam",
    "Civi",
    "Method",
    "Nmc",
    "Problem",
    "Result",
    "Scgd",
    "minimise",
    "proximal",
]
