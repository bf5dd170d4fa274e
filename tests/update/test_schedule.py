"""Sample sizes: constant, or growing as C t^(4/5)."""

import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.update import Samples, SampleSizes

STEPS = np.arange(1, 5001)


def numbers(samples, kind, steps=5000):
    return np.asarray(SampleSizes(samples, steps).at(kind, jnp.arange(1, steps + 1, dtype=float)), np.float64)


@pytest.mark.parametrize(("kind", "expected"), [("outer", 7), ("inner", 9), ("auxiliary", 5)])
def test_without_growth_the_number_is_constant(kind, expected):
    samples = Samples(outer=7, inner=9, auxiliary=5)
    np.testing.assert_array_equal(numbers(samples, kind), expected)
    assert SampleSizes(samples, 5000).most(kind) == expected


def test_without_a_number_of_its_own_the_second_look_has_that_of_the_first():
    np.testing.assert_array_equal(numbers(Samples(inner=9), "auxiliary"), 9)


@pytest.mark.parametrize("constant", [1, 10, 100])
def test_with_growth_the_number_is_c_t_to_the_four_fifths(constant):
    exact = constant * STEPS.astype(np.float64) ** 0.8
    got = numbers(Samples(inner=constant, growth=0.8), "inner")
    assert (got >= exact * (1 - 1e-5)).all()
    assert (got < exact * (1 + 1e-5) + 1).all()
    assert not (got < constant * STEPS**0.75 + 1).all()


@pytest.mark.parametrize(("constant", "steps"), [(2, 2564), (5, 4068), (100, 1025), (128, 1532), (1000, 485)])
def test_no_step_asks_for_more_samples_than_the_arrays_hold(constant, steps):
    samples = Samples(inner=constant, growth=0.8)
    assert numbers(samples, "inner", steps).max() == SampleSizes(samples, steps).most("inner")
    assert SampleSizes(samples, steps).most("inner") == np.ceil(constant * steps**0.8)


def test_stages_divide_the_run_in_equal_parts():
    samples = Samples(stages=(1, 50, 20))
    np.testing.assert_array_equal(numbers(samples, "inner", steps=9), np.repeat([1, 50, 20], 3))
    assert SampleSizes(samples, 9).most("inner") == 50


@pytest.mark.parametrize("steps", [3, 7, 100, 3000, 9999])
def test_the_last_step_is_in_the_last_stage(steps):
    assert numbers(Samples(stages=(1, 50, 100)), "inner", steps)[-1] == 100


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outer": 0}, r"samples.outer \(K1\) must be at least 1, not 0"),
        ({"inner": 0}, r"samples.inner \(K2\) must be at least 1, not 0"),
        ({"auxiliary": 0}, r"samples.auxiliary \(K3\) must be at least 1, or none \(the same as K2\), not 0"),
        ({"stages": (1, 0)}, r"samples.stages must all be at least 1, not \(1, 0\)"),
        ({"growth": -0.1}, r"samples.growth must be in \[0, 1\]"),
        ({"growth": 1.1}, r"samples.growth must be in \[0, 1\]"),
    ],
)
def test_impossible_numbers_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        Samples(**settings)
