"""Solvers by name. Each is a function of the family's architecture and a recipe's defaults."""

from __future__ import annotations

from collections.abc import Callable

from civi.solver.aisivi import aisivi
from civi.solver.asc_pg import asc_pg
from civi.solver.base import Method
from civi.solver.bsivi import bsivi
from civi.solver.cadam import cadam
from civi.solver.civi import civi
from civi.solver.civi_paper import civi_paper
from civi.solver.divi import divi
from civi.solver.gaussian import fullrank, mfvb
from civi.solver.iwhvi import iwhvi
from civi.solver.kpg import kpg
from civi.solver.ksivi import ksivi
from civi.solver.nmc import nmc_adam, nmc_rmsprop, nmc_sgd
from civi.solver.pvi import pvi
from civi.solver.scgd import scgd
from civi.solver.sivi import sivi
from civi.solver.sivi_sm import sivi_sm
from civi.solver.uivi import uivi

SOLVERS: dict[str, Callable[..., Method]] = {
    "civi": civi,
    "civi-paper": civi_paper,
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
    "bsivi": bsivi,
    "aisivi": aisivi,
    "iwhvi": iwhvi,
    "divi": divi,
    "kpg": kpg,
    "ksivi": ksivi,
    "sivi-sm": sivi_sm,
    "pvi": pvi,
}
