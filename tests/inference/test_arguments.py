"""Keys, counts and shapes are checked before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import civi
from civi.errors import SettingError
from civi.family import Architecture
from civi.files import as_path
from civi.inference.arguments import as_key
from civi.inference.posterior import SemiImplicitPosterior
from civi.inference.recipe import check_solver
from civi.problem.target import star


def log_density(z):
    return -0.5 * z @ z


@pytest.fixture(scope="module")
def posterior():
    family = Architecture(hidden=(3,)).init(2, jax.random.key(0))
    return SemiImplicitPosterior(family=family, target=star(), converged=False, r_hat=1.25, message="finished 7 steps")


def data_of(key) -> list[int]:
    return np.asarray(jax.random.key_data(key)).tolist()


def test_a_whole_number_is_the_seed_of_a_key(posterior):
    assert data_of(as_key(7)) == data_of(as_key(np.int64(7))) == data_of(jax.random.key(7))
    assert data_of(as_key(jax.random.PRNGKey(7))) == data_of(jax.random.key(7))
    assert data_of(as_key(7)) != data_of(as_key(8))
    np.testing.assert_array_equal(posterior.sample(7, 5), posterior.sample(jax.random.key(7), 5))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "key must be a random key such as jax.random.key\\(0\\), or a whole number, not None"),
        ("0", r"or a whole number, not '0' \(a str\)"),
        (True, r"or a whole number, not True \(a bool\)"),
        (0.5, r"or a whole number, not 0.5 \(a float\)"),
        (-1, "a seed must be from 0 to 2147483647, not -1"),
        (2**32, "a seed must be from 0 to 2147483647, not 4294967296"),
        (jax.random.split(jax.random.key(0), 2), r"give one random key, not an array of shape \(2,\)"),
    ],
)
def test_what_is_no_key_is_refused(key, message):
    with pytest.raises(SettingError, match=message):
        civi.fit(log_density, dim=2, key=key)


def test_what_is_no_path_is_refused():
    for given in (None, 3, b"file"):
        with pytest.raises(SettingError, match="a path must be a text or a Path, not of type"):
            as_path(given)
    for function in (civi.load, civi.keep_programs, lambda path: civi.Rows(path, "a")):
        with pytest.raises(SettingError, match="the path is empty"):
            function("")


@pytest.mark.parametrize("solver", [None, ["civi"]])
def test_a_solver_that_is_no_name_is_refused(solver):
    with pytest.raises(SettingError, match="solver must be the name of one, not a"):
        check_solver(solver)


def test_a_fit_inside_a_jax_transformation_is_refused():
    with pytest.raises(SettingError, match="call it outside of jit, vmap and grad"):
        jax.jit(lambda key: civi.fit(log_density, dim=2, key=key))(jax.random.key(0))


@pytest.mark.parametrize("transformed", [jax.jit, jax.grad])
def test_a_fit_whose_density_uses_a_traced_value_is_refused(transformed):
    with pytest.raises(SettingError, match="call it outside of jit, vmap and grad"):
        transformed(lambda x: civi.fit(lambda z: -((z - x) ** 2).sum(), dim=2, key=0).elbo(0))(1.0)


@pytest.mark.parametrize("count", [0, -1])
def test_a_number_of_draws_that_is_not_positive_is_refused(posterior, count):
    with pytest.raises(SettingError, match=f"count must be from 1 to 2147483647, not {count}"):
        posterior.sample(jax.random.key(0), count)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (4, 1), (1, 4, 2)])
def test_points_of_another_width_are_refused(posterior, shape):
    with pytest.raises(SettingError, match=r"log_prob takes points of shape \(n, 2\), not an array of shape"):
        posterior.log_prob(jnp.zeros(shape))


def test_one_point_is_a_row(posterior):
    z = np.array([[0.3, -0.2]], np.float32)
    assert posterior.log_prob(z, inner=50).lower.shape == (1,)


def test_the_representation_says_what_the_posterior_is_in_a_few_lines(posterior):
    assert repr(posterior) == (
        "SemiImplicitPosterior of 2 unconstrained parameters\n"
        "  did not converge, R-hat between runs 1.250\n"
        "  finished 7 steps"
    )
