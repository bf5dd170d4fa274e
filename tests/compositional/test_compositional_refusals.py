"""Invalid input is rejected with a message that says what to do."""

import jax
import jax.numpy as jnp
import pytest

from civi.compositional import METHODS, Oracles, asc_pg, cadam, civi, minimise, scgd
from civi.compositional.problems import linear_design
from civi.errors import SettingError

GOOD = Oracles(lambda theta, key: theta, lambda y, key: (y**2).sum())


def refuse(message, problem=GOOD, theta=None, **options):
    theta = jnp.zeros(2) if theta is None else theta
    with pytest.raises(SettingError, match=message):
        minimise(problem, theta, jax.random.key(0), **{"method": "scgd", "steps": 3, **options})


def test_an_unknown_method_suggests_the_nearest():
    refuse("unknown method 'asc_pg': did you mean 'asc-pg'", method="asc_pg")
    assert set(METHODS) == {"scgd", "asc-pg", "cadam", "civi", "nmc"}


def test_steps_must_be_positive():
    refuse("steps must be at least 1, not 0", steps=0)


def test_theta_must_be_finite_floats():
    refuse("theta_1 must hold float arrays only, not int32", theta=jnp.zeros(2, int))
    refuse("theta_1 must hold float arrays only, not a str", theta={"a": "one"})
    refuse("theta_1 has no arrays", theta={})
    refuse("theta_1 must be finite", theta=jnp.array([0.0, jnp.inf]))


def test_oracles_must_have_the_right_shapes():
    refuse(r"inner\(theta, key\) must return a float vector", Oracles(lambda theta, key: theta.sum(), GOOD.outer))
    refuse(r"not float32\[1, 2\]", Oracles(lambda theta, key: theta[None], GOOD.outer))
    refuse("not a tuple", Oracles(lambda theta, key: (theta, theta), GOOD.outer))
    refuse(
        r"outer\(y, key\) must return a float of shape \(\), not float32\[2\]", Oracles(GOOD.inner, lambda y, key: y)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scgd(c_alpha=0.0), "update.learning_rate must be positive, not 0.0"),
        (lambda: scgd(c_beta=1.5), r"tracker.beta must be in \(0, 1\], not 1.5"),
        (lambda: asc_pg(l1=-0.1), "update.l1 and update.l2 must not be negative, but one is -0.1"),
        (lambda: cadam(c_gamma=1.1), r"c_gamma must be in \[0, 1\]"),
        (lambda: civi(mu=1.0), r"mu must be in \(0, 1\)"),
        (lambda: civi(xi=0.0), "xi must be positive"),
        (lambda: linear_design(jax.random.key(0), pool=4), "pool must be larger than 4"),
        (lambda: linear_design(jax.random.key(0), rows=0), "rows must be at least 1"),
    ],
)
def test_settings_outside_their_range_are_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()
