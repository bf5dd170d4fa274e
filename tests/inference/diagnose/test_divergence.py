"""Bounds on the negative ELBO against the closed form of the linear Gaussian case."""

import jax
import pytest

from civi.inference.diagnose import Bounds, neg_elbo_bounds
from linear_gaussian import gaussian_target, linear_family, neg_elbo
from montecarlo import LIMIT

pytestmark = pytest.mark.optimised


def bracket(bounds: Bounds, truth: float) -> bool:
    """Whether the upper bound is significantly above the true value and the lower bound significantly below it."""
    return bounds.upper - LIMIT * bounds.upper_se > truth > bounds.lower + LIMIT * bounds.lower_se


@pytest.fixture(scope="module")
def truth():
    return float(neg_elbo(linear_family(), gaussian_target()))


@pytest.mark.parametrize("inner", [3, 10])
def test_few_inner_samples_give_measurable_bounds_on_both_sides(inner, truth):
    bounds = neg_elbo_bounds(linear_family(), gaussian_target(), jax.random.key(0), outer=10_000, inner=inner)
    swapped = Bounds(bounds.lower, bounds.lower_se, bounds.upper, bounds.upper_se)
    assert bracket(bounds, truth)
    assert not bracket(swapped, truth)


def test_many_inner_samples_meet_the_truth_on_both_sides(truth):
    bounds = neg_elbo_bounds(linear_family(), gaussian_target(), jax.random.key(1), outer=10_000, inner=4_000)
    for value, standard_error in ((bounds.upper, bounds.upper_se), (bounds.lower, bounds.lower_se)):
        assert abs(value - truth) < LIMIT * standard_error
        assert abs(value - (truth + 0.3)) > LIMIT * standard_error
    assert bounds.lower < bounds.upper
