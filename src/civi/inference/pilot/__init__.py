"""Pilots: cheap approximations that set location and scale, so that the family only learns the remaining shape."""

from civi.inference.pilot.base import NoPilot, Pilot
from civi.inference.pilot.gaussian import Gaussian
from civi.inference.pilot.laplace import Laplace

PILOTS: dict[str, type] = {"none": NoPilot, "laplace": Laplace, "gaussian": Gaussian}

__all__ = ["PILOTS", "Gaussian", "Laplace", "NoPilot", "Pilot"]
