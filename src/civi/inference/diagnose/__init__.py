"""Measures of how good a fit is, the same for every solver."""

from civi.inference.diagnose.distance import sliced_wasserstein
from civi.inference.diagnose.divergence import Bounds, log_q, neg_elbo_bounds

__all__ = ["Bounds", "log_q", "neg_elbo_bounds", "sliced_wasserstein"]
