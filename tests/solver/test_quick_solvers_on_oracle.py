"""Solvers on the linear-Gaussian oracle whose compilation takes longer than their training, and NUTS."""

import jax
import numpy as np
import pytest

from civi.inference.nuts import Nuts
from linear_gaussian import gaussian_target
from oracle import NESTED, fitted, is_off, reports_too_little


def test_full_rank_gaussian_is_exact():
    target, conditional = gaussian_target(), fitted("fullrank").problem.family.conditional
    np.testing.assert_allclose(fitted("fullrank").problem.family.mixing.output, target.mean, atol=0.03)
    np.testing.assert_allclose(conditional.cholesky @ conditional.cholesky.T, target.covariance, atol=0.06)


def test_mean_field_finds_its_known_optimum_and_not_the_posterior():
    """The best diagonal Gaussian has variances 1 / precision_ii, which are too small if coordinates are correlated."""
    target = gaussian_target()
    variance = np.exp(2 * np.asarray(fitted("mfvb").problem.family.conditional.log_scale))
    np.testing.assert_allclose(variance, 1 / np.diag(np.linalg.inv(target.covariance)), rtol=0.05)
    assert (variance < 0.93 * np.diag(target.covariance)).all()


@pytest.mark.parametrize("name", NESTED)
def test_the_plain_mean_reports_less_than_any_posterior_can_have(name):
    """The plain mean is driven below the bound, and the fit away from the target."""
    assert reports_too_little(name)
    assert is_off(name)


def test_nuts_recovers_mean_and_covariance():
    target = gaussian_target()
    reference = Nuts(chains=4, warmup=300, draws=1000).sample(target, jax.random.key(1))
    assert reference.r_hat.max() < 1.02
    flat = reference.draws.reshape(-1, 2).astype(np.float64)
    standard_error = np.sqrt(np.diag(target.covariance) / reference.effective_size)
    assert (np.abs(flat.mean(0) - target.mean) < 4 * standard_error).all()
    assert not (np.abs(flat.mean(0) - target.mean - 0.5) < 4 * standard_error).all()
    np.testing.assert_allclose(np.cov(flat.T), target.covariance, atol=0.15)
