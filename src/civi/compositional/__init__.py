"""Compositional optimisation: minimise any E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ] from samples of f and g.

It uses the same engine as semi-implicit inference (`civi.solver.engine`). `problems` has two problems with known
solutions, and `python -m civi.compositional` compares the methods on them.
"""

from civi.compositional.methods import METHODS, asc_pg, cadam, civi, nmc, scgd
from civi.compositional.minimise import Result, minimise
from civi.problem.oracles import Oracles
from civi.update.proximal import proximal

__all__ = ["METHODS", "Oracles", "Result", "asc_pg", "cadam", "civi", "minimise", "nmc", "proximal", "scgd"]
