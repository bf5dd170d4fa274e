"""Improper posteriors are rejected with the name of the parameter; proper ones with very heavy tails are not."""

import jax
import jax.numpy as jnp
import pytest

from civi.errors import TargetError
from civi.inference.pilot.proper import check_proper
from civi.problem.target import Frame, Framed, LogDensity


def checked(log_density):
    framed = Framed.at(LogDensity(log_density, 2), Frame(jnp.zeros(2), jnp.eye(2)))
    check_proper(framed, lambda z: {"a": z[0], "b": z[1:]})


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
