"""Targets and settings that cannot work are refused before the first step, with a message that says why."""

import jax
import jax.numpy as jnp
import pytest

from civi.errors import SettingError, TargetError
from civi.problem.target import LogDensity
from civi.solver import Civi, Model, train
from civi.tracker import Pool
from civi.update import Samples
from counting_solver import CountingSolver
from linear_gaussian import linear_family


def raises(z):
    raise ValueError("no such table")


@pytest.mark.parametrize(
    ("log_density", "message"),
    [
        (raises, "fails on a vector of length 2: ValueError: no such table"),
        (lambda z: z @ jnp.ones(3), "fails on a vector of length 2"),
        (lambda z: jnp.sum(jnp.log(z)), "NaN or [+]inf at .* of the first 64 draws"),
        (lambda z: jnp.log(0.0 * jnp.sum(z**2)), "-inf at all of the first 64 draws"),
    ],
)
def test_targets_that_cannot_be_fitted_are_refused(log_density, message):
    with pytest.raises(TargetError, match=message):
        train(CountingSolver(steps=2), Model(linear_family(), LogDensity(log_density, dim=2)), jax.random.key(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"inner_mean": "unsafe"}, "inner_mean must be one of safe, plain, not 'unsafe'"),
        ({"weigh": "all"}, "weigh must be one of entropy, ratio, not 'all'"),
        ({"output": "best"}, "output must be one of last, average, uniform, not 'best'"),
        ({"pool": Pool(size=100)}, r"pool.chunk \(128\) is larger than the pool \(100\)"),
        ({"pool": Pool(chunk=64)}, r"pool.draw = each uses all 64 samples of the chunk"),
        ({"samples": Samples(growth=0.8)}, r"samples.growth needs pool.draw = uniform"),
    ],
)
def test_impossible_settings_of_civi_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        Civi(**settings)
