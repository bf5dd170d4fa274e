"""The check that a log density is a pure function, which is made once for each function."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from civi.errors import TargetError
from civi.problem.target.purity import pure_trace

Z = jax.ShapeDtypeStruct((2,), jnp.float32)


def test_the_same_operations_of_the_same_code_are_checked_once():
    calls = []

    def log_density(z, scale):
        calls.append(scale)
        return -scale * z @ z

    for scale, count in ((1.0, 2), (1.0, 3), (2.0, 5)):
        pure_trace(partial(log_density, scale=scale), Z, origin=log_density)
        assert len(calls) == count, scale


def test_a_function_that_is_refused_is_refused_again():
    drawn = iter(range(100))

    def log_density(z):
        return -z @ z + next(drawn)

    for _ in range(3):
        with pytest.raises(TargetError, match="not deterministic"):
            pure_trace(log_density, Z, origin=log_density)


def test_callables_without_code_of_their_own_are_always_checked():
    calls = []

    class Density:
        def __call__(self, z):
            calls.append(0)
            return -z @ z

    density = Density()
    for count in (2, 4):
        pure_trace(density, Z, origin=density)
        assert len(calls) == count
