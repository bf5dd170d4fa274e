"""Targets: what is to be approximated, as log p(x, z)."""

from civi.target.base import LogDensity, SampledTarget, Target, check_shape, check_values
from civi.target.toy import Banana, GaussianMixture, banana, star, two_modal

__all__ = [
    "Banana",
    "GaussianMixture",
    "LogDensity",
    "SampledTarget",
    "Target",
    "banana",
    "check_shape",
    "check_values",
    "star",
    "two_modal",
]
