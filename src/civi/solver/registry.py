"""Solvers by name: each a function from the task's family to settings, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

from civi.family import Architecture
from civi.inference.nuts import nuts
from civi.solver.asc_pg import asc_pg
from civi.solver.base import Settings
from civi.solver.cadam import cadam
from civi.solver.civi import civi
from civi.solver.gaussian import fullrank, mfvb
from civi.solver.nmc import nmc_adam, nmc_rmsprop, nmc_sgd
from civi.solver.scgd import scgd
from civi.solver.sivi import sivi
from civi.solver.uivi import uivi

SOLVERS: dict[str, Callable[[Architecture], Settings]] = {
    "civi": civi,
    "sivi": sivi,
    "uivi": uivi,
    "nmc-adam": nmc_adam,
    "nmc-rmsprop": nmc_rmsprop,
    "nmc-sgd": nmc_sgd,
    "scgd": scgd,
    "asc-pg": asc_pg,
    "cadam": cadam,
    "mfvb": mfvb,
    "fullrank": fullrank,
    "nuts": nuts,
}
