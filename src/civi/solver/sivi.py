"""SIVI (Yin and Zhou 2018): the surrogate bound with the own term, from more and more fresh inner samples."""

from __future__ import annotations

from civi.family import Architecture
from civi.solver.base import Settings
from civi.solver.civi import Civi
from civi.tracker import NoTracker
from civi.update import Samples


def sivi(family: Architecture) -> Settings:
    """SIVI: own-term bound, no tracking, K2 = 1, 50, 100 in three stages, Adam."""
    return Settings(family, Civi(samples=Samples(stages=(1, 50, 100)), inner_mean="safe", tracker=NoTracker()))
