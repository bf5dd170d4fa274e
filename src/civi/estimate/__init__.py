"""Estimators: log ratios from inner samples, scores of q, and gradient sketching."""

from civi.estimate.log_ratio import LogRatios, Look, log_density, log_mean_exp, log_ratios, log_sum_past, mix_own
from civi.estimate.score import Draws, Score, Scored, with_slope
from civi.estimate.sketch import Picked, Sketch

__all__ = [
    "Draws",
    "LogRatios",
    "Look",
    "Picked",
    "Score",
    "Scored",
    "Sketch",
    "log_density",
    "log_mean_exp",
    "log_ratios",
    "log_sum_past",
    "mix_own",
    "with_slope",
]
