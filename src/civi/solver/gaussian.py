"""Explicit Gaussian families: a semi-implicit family without mixing, whose inner mean is exact with one sample."""

from __future__ import annotations

from dataclasses import replace

from civi.family import Architecture
from civi.solver.base import Settings
from civi.solver.civi import Civi
from civi.tracker import NoTracker
from civi.update import Samples


def _explicit(family: Architecture, conditional: str) -> Settings:
    without_mixing = replace(family, mixing="constant", conditional=conditional)
    return Settings(without_mixing, Civi(samples=Samples(inner=1), tracker=NoTracker()))


def mfvb(family: Architecture) -> Settings:
    """Mean-field Gaussian, reparameterised gradient, Adam."""
    return _explicit(family, "diagonal")


def fullrank(family: Architecture) -> Settings:
    """Full-rank Gaussian, reparameterised gradient, Adam."""
    return _explicit(family, "cholesky")
