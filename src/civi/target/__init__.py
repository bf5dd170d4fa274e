"""Targets: what is to be approximated, as log p(x, z)."""

from civi.target.base import LogDensity, Target, check_shape, check_values
from civi.target.toy import Banana, GaussianMixture, banana, star, two_modal

__all__ = [
    "Banana",
    "GaussianMixture",
    "LogDensity",
    "Target",
    "banana",
    "check_shape",
    "check_values",
    "star",
    "two_modal",
]
