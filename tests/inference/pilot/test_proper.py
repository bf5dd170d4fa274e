"""Improper posteriors are rejected with the name of the parameter; proper ones with very heavy tails are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import TargetError
from civi.inference.pilot.gaussian import Guess
from civi.inference.pilot.proper import check_proper
from civi.inference.pilot.slopes import TargetSlopes
from civi.problem.target import LogDensity

POINTS = 288


def unravel(z):
    return {"a": z[0], "b": z[1:]}


def checked(log_density, factor=None):
    """Check a density of R^2 around the standard normal distribution, or around one with this factor."""
    guess = Guess(0.0, np.zeros(2), np.eye(2) if factor is None else factor)
    check_proper(TargetSlopes(LogDensity(log_density, 2), POINTS), guess, np.zeros(0), unravel)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda z: -0.5 * z[0] ** 2,
        lambda z: -0.5 * z[0] ** 2 + jax.nn.log_sigmoid(z[1]),
        lambda z: -0.5 * z[0] ** 2 - 0.5 * jnp.log1p(z[1] ** 2),
    ],
    ids=["flat", "flat on one side", "falls like 1 / z"],
)
def test_an_improper_posterior_is_rejected_by_name(log_density):
    with pytest.raises(TargetError, match=r"looks improper along b\[0\]"):
        checked(log_density)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda z: -0.5 * z @ z,
        lambda z: -jnp.log1p(z**2).sum(),
        lambda z: -0.5 * z[0] ** 2 + z[1] - jnp.exp(z[1]),
        lambda z: -0.5 * (z[0] ** 2 + (z[1] / 8) ** 2),
    ],
    ids=["Gaussian", "Cauchy", "log of an exponential", "wider than its frame"],
)
def test_a_proper_posterior_passes(log_density):
    checked(log_density)


def flat(z):
    return -0.5 * z[0] ** 2


def test_the_name_is_that_of_the_parameter_and_not_of_the_direction():
    """The first column of a dense factor is the direction of b, the second that of a."""
    with pytest.raises(TargetError, match=r"looks improper along b\[0\]"):
        checked(flat, np.array([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(TargetError, match=r"looks improper along b\[0\]"):
        checked(flat, np.ones(2))
