"""Log densities that cannot be fitted raise an error that says why."""

import equinox as eqx
import jax.numpy as jnp
import pytest

from civi.errors import TargetError
from civi.problem.target import LogDensity, check_shape, check_values, star

DRAWS = jnp.array([[0.5, 1.0], [2.0, -1.25], [0.0, 3.0]])


class PerCoordinate(eqx.Module):
    """Deliberately wrong: returns one number per coordinate instead of one for z."""

    dim: int = eqx.field(static=True, default=2)

    def log_prob(self, z):
        return -0.5 * z**2


def asks_for_three(z):
    return z @ jnp.ones((2, 3)) @ jnp.ones(2)


def raises(z):
    raise RuntimeError("no data loaded\nsecond line")


def test_a_good_target_passes():
    check_shape(star())
    check_shape(LogDensity(lambda z: -z @ z, dim=4))
    check_values(DRAWS, jnp.array([-1.0, -jnp.inf, -2.0]))


def test_more_than_one_number_is_refused():
    with pytest.raises(TargetError, match=r"must return one number for one z, not an array of shape \(2,\)"):
        check_shape(PerCoordinate())


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(TargetError, match="fails on a vector of length 2: "):
        check_shape(LogDensity(asks_for_three, dim=2))


def test_a_function_that_raises_is_refused_with_its_first_line():
    with pytest.raises(TargetError, match=r"fails on a vector of length 5: RuntimeError: no data loaded$") as refused:
        check_shape(LogDensity(raises, dim=5))
    assert isinstance(refused.value.__cause__, RuntimeError)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_nan_and_plus_infinity_are_refused_with_a_place(bad):
    with pytest.raises(TargetError, match=r"NaN or \+inf at 1 of the first 3 draws.*z = \[2.0, -1.25\]"):
        check_values(DRAWS, jnp.array([-1.0, bad, -2.0]))


def test_minus_infinity_everywhere_is_refused():
    with pytest.raises(TargetError, match="-inf at all of the first 3 draws"):
        check_values(DRAWS, jnp.full(3, -jnp.inf))
