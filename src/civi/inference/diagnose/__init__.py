"""Honest measures of a fit."""

from civi.inference.diagnose.distance import sliced_wasserstein
from civi.inference.diagnose.divergence import Bounds, log_q, neg_elbo_bounds

__all__ = ["Bounds", "log_q", "neg_elbo_bounds", "sliced_wasserstein"]
