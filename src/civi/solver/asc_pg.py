"""ASC-PG (Wang, Liu and Fang 2017): accelerated stochastic compositional proximal gradient."""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import Settings
from civi.solver.civi import Civi
from civi.tracker import Extrapolated, Pool
from civi.update import FirstOrder


def asc_pg(family: Architecture) -> Settings:
    """ASC-PG: extrapolation with beta_t = t^-4/9, SGD with alpha_t ~ t^-5/9, proximal step for l1 and l2."""
    update = FirstOrder("sgd", learning_rate=0.03, decay="power", power=5 / 9, clip=10.0)
    pool = Pool(switch_every=5)
    tracker = Extrapolated(1.0, 4 / 9)
    return Settings(family, Civi(pool=pool, inner_mean="plain", tracker=tracker, weigh="ratio", update=update))
