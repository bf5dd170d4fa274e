"""Invalid targets and settings raise an error before the first step, with a message that says why."""

import jax
import jax.numpy as jnp
import pytest

from civi.errors import SettingError, TargetError
from civi.problem import PosteriorProblem
from civi.problem.target import LogDensity
from civi.solver import CompositionalSolver, LogTrick, train
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
    problem = PosteriorProblem(linear_family(), LogDensity(log_density, dim=2))
    with pytest.raises(TargetError, match=message):
        train(CountingSolver(steps=2), problem, jax.random.key(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"output": "best"}, "output must be one of last, average, uniform, not 'best'"),
        ({"pool": Pool(size=100)}, r"pool.chunk \(128\) is larger than the pool \(100\)"),
        ({"pool": Pool(chunk=64)}, r"pool.draw = each uses the whole chunk: set samples.outer to pool.chunk \(64\)"),
        ({"samples": Samples(growth=0.8)}, r"samples.growth needs pool.draw = uniform"),
    ],
)
def test_impossible_settings_of_the_engine_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        CompositionalSolver(**settings)


@pytest.mark.parametrize(
    ("name", "value", "known"), [("inner_mean", "unsafe", ["safe", "plain"]), ("weigh", "all", ["entropy", "ratio"])]
)
def test_an_unknown_name_is_refused_with_those_that_are_known(name, value, known):
    """Raised by the run-time type checker of the tests, or by the settings themselves."""
    with pytest.raises((SettingError, TypeError)) as refused:
        LogTrick(**{name: value})
    assert all(word in str(refused.value) for word in (name, f"'{value}'", *known))
