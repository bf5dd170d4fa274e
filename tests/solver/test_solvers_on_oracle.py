"""Every registered solver on the linear-Gaussian oracle, where posterior, bound and bias are known exactly."""

import jax
import numpy as np
import pytest

from civi.solver import SOLVERS
from linear_gaussian import gaussian_target, mean_and_covariance, neg_elbo
from oracle import (
    EXACT,
    EXPLICIT,
    FIELD,
    LINEAR,
    LITERAL,
    LOWEST,
    NESTED,
    TRACKED_SGD,
    fitted,
    is_off,
    reports_too_little,
)

pytestmark = pytest.mark.optimised


def test_every_solver_is_tested_here_or_among_the_quick_ones():
    assert {*EXACT, LITERAL, *TRACKED_SGD, "cadam", *NESTED, *EXPLICIT, *FIELD} == set(SOLVERS)


@pytest.mark.parametrize("name", EXACT)
def test_recovers_mean_and_covariance(name):
    target = gaussian_target()
    mean, covariance = mean_and_covariance(fitted(name).problem.family)
    np.testing.assert_allclose(mean, target.mean, atol=0.05)
    np.testing.assert_allclose(covariance, target.covariance, atol=0.08)
    assert float(neg_elbo(fitted(name).problem.family, target)) < LOWEST + 0.005


def test_the_same_check_rejects_a_run_that_is_too_short():
    family = SOLVERS["civi"](LINEAR).family.init(2, jax.random.key(0))
    assert float(neg_elbo(family, gaussian_target())) > LOWEST + 0.1


@pytest.mark.parametrize("name", TRACKED_SGD)
def test_tracked_plain_mean_finds_the_mean_and_loses_a_tenth_of_the_variance(name):
    """The bias of the plain mean, which the test of the exact solvers above would reject."""
    target = gaussian_target()
    mean, covariance = mean_and_covariance(fitted(name).problem.family)
    np.testing.assert_allclose(mean, target.mean, atol=0.1)
    share = np.diag(covariance) / np.diag(target.covariance)
    assert (share > 0.75).all()
    assert (share < 0.95).all()


def test_the_literal_method_finds_the_mean_and_loses_up_to_half_of_the_variance():
    """100 inner samples instead of the paper's 1,000 or more: the plain mean rewards a conditional that shrinks."""
    target, start = gaussian_target(), SOLVERS[LITERAL](LINEAR).family.init(2, jax.random.key(0))
    mean, covariance = mean_and_covariance(fitted(LITERAL).problem.family)
    np.testing.assert_allclose(mean, target.mean, atol=0.1)
    share = np.diag(covariance) / np.diag(target.covariance)
    assert (share > 0.4).all()
    assert (share < 0.9).all()
    assert is_off(LITERAL)
    assert float(neg_elbo(fitted(LITERAL).problem.family, target)) < LOWEST + 0.5 * float(
        neg_elbo(start, target) - LOWEST
    )


@pytest.mark.parametrize("name", ["cadam"])
def test_the_plain_mean_reports_less_than_any_posterior_can_have(name):
    """The plain mean is driven below the bound, and the fit away from the target."""
    assert reports_too_little(name)
    assert is_off(name)


def test_the_safe_mean_does_not():
    reported = fitted("civi").history["neg_elbo"][-200:]
    standard_error = reported.std() / np.sqrt(len(reported))
    assert reported.mean() > LOWEST - 4 * standard_error
    assert not is_off("civi")
