"""Pilots: a cheap first look at the target that sets location and scale, so that the family learns what is left."""

from civi.inference.pilot.base import NoPilot, Pilot
from civi.inference.pilot.gaussian import Gaussian
from civi.inference.pilot.laplace import Laplace

PILOTS: dict[str, type] = {"none": NoPilot, "laplace": Laplace, "gaussian": Gaussian}

__all__ = ["PILOTS", "Gaussian", "Laplace", "NoPilot", "Pilot"]
