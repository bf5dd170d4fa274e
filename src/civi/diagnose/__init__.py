"""Honest measures of a fit."""

from civi.diagnose.distance import sliced_wasserstein
from civi.diagnose.divergence import Bounds, log_q, neg_elbo_bounds

__all__ = ["Bounds", "log_q", "neg_elbo_bounds", "sliced_wasserstein"]
