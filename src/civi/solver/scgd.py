"""SCGD (Wang, Fang and Liu 2017): stochastic compositional gradient descent, the first to track the inner mean."""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import Settings
from civi.solver.civi import Civi
from civi.tracker import Pool, Smoothed
from civi.update import FirstOrder


def scgd(family: Architecture) -> Settings:
    """SCGD: smoothing at theta_{t+1} with beta_t = t^-1/2, SGD with alpha_t ~ t^-3/4."""
    update = FirstOrder("sgd", learning_rate=0.1, decay="power", power=3 / 4, clip=10.0)
    pool = Pool(switch_every=5)
    return Settings(
        family, Civi(pool=pool, inner_mean="plain", tracker=Smoothed(1.0, 1 / 2), weigh="ratio", update=update)
    )
