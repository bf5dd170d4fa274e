"""Estimators: log ratios from inner samples, and the sketch of their gradient."""

from civi.estimate.log_ratio import LogRatios, log_density, log_mean_exp, log_ratios, log_sum_past, mix_own
from civi.estimate.sketch import Picked, Sketch
from civi.estimate.weighted import importance_weighted

__all__ = [
    "LogRatios",
    "Picked",
    "Sketch",
    "importance_weighted",
    "log_density",
    "log_mean_exp",
    "log_ratios",
    "log_sum_past",
    "mix_own",
]
