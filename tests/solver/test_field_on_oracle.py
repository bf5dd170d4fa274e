"""The methods after CI-VI on the linear-Gaussian oracle: each recovers the mean and the covariance of the target."""

import jax
import numpy as np
import pytest

from civi.inference.diagnose.divergence import log_ratio_bounds
from civi.solver import SOLVERS
from linear_gaussian import gaussian_target, mean_and_covariance, neg_elbo
from oracle import FIELD, LINEAR, LOWEST, fitted

MEAN_ERROR, COVARIANCE_ERROR, EXCESS = 0.05, 0.08, 0.005


def is_exact(mean, covariance, excess) -> bool:
    target = gaussian_target()
    close = np.allclose(mean, target.mean, atol=MEAN_ERROR)
    return bool(close and np.allclose(covariance, target.covariance, atol=COVARIANCE_ERROR) and excess < EXCESS)


@pytest.mark.parametrize("name", [name for name in FIELD if name != "pvi"])
def test_recovers_mean_and_covariance(name):
    family = fitted(name).problem.family
    assert is_exact(*mean_and_covariance(family), float(neg_elbo(family, gaussian_target())) - LOWEST)
    assert fitted(name).skipped == 0


def test_the_same_check_rejects_the_start_of_the_runs():
    family = SOLVERS["bsivi"](LINEAR).family.init(2, jax.random.key(0))
    assert not is_exact(*mean_and_covariance(family), float(neg_elbo(family, gaussian_target())) - LOWEST)


def test_particles_recover_mean_and_covariance():
    """q is a mixture of 100 Gaussians, whose moments and density are exact sums over the particles."""
    trained, target = fitted("pvi"), gaussian_target()
    family = trained.problem.family
    centres = np.asarray(family.mix(family.noise.sample(jax.random.key(0), 100)), np.float64)
    variances = np.exp(2 * np.asarray(family.conditional.log_scale, np.float64))
    _, lower = log_ratio_bounds(family, target, jax.random.key(1), 10_000, 100)
    assert is_exact(centres.mean(0), np.cov(centres.T, ddof=0) + np.diag(variances), float(lower.mean()) - LOWEST)
    assert not is_exact(centres.mean(0), np.diag(variances), float(lower.mean()) - LOWEST)
