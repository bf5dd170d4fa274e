"""Pilots: a cheap first look at the target that sets location and scale, so that the family learns what is left."""

from civi.pilot.base import NoPilot, Pilot
from civi.pilot.laplace import Laplace

PILOTS: dict[str, type] = {"none": NoPilot, "laplace": Laplace}

__all__ = ["PILOTS", "Laplace", "NoPilot", "Pilot"]
