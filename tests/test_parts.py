"""Declared roles of arrays: which are trained and in which group, which are constant, and which are rows of data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autoencoding import BITS, image_problem
from civi.errors import CiviError
from civi.parts import constant, data_rows, groups, is_rows, split, trained
from civi.problem import OracleProblem, Oracles, PosteriorProblem
from civi.problem.sentences import SentenceData
from civi.problem.target import LogisticRegression
from linear_gaussian import WEIGHT, gaussian_target, linear_family

ORACLES = Oracles(lambda theta, key: theta["a"] * WEIGHT[0], lambda y, key: y.sum())
THETA = {"a": jnp.ones(2), "b": (jnp.zeros(()), jnp.ones((2, 1)))}


def named(tree) -> dict:
    """The leaves of a tree by their path."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def problems() -> dict:
    return {
        "posterior": PosteriorProblem(linear_family(), gaussian_target()),
        "autoencoder": image_problem(),
        "oracles": OracleProblem(THETA, ORACLES),
    }


@pytest.mark.parametrize("name", problems())
def test_the_two_parts_are_the_whole(name):
    problem = problems()[name]
    params, fixed = split(problem)
    assert not named(params).keys() & named(fixed).keys()
    assert jax.tree.structure(eqx.combine(params, fixed)) == jax.tree.structure(problem)
    again = named(eqx.combine(params, fixed))
    assert all(again[path] is leaf for path, leaf in named(problem).items())


def test_of_a_posterior_the_family_is_trained_and_the_target_is_not():
    params, fixed = split(problems()["posterior"])
    assert named(groups(params)) == {
        ".family.mixing.weights[0]": "mixing",
        ".family.mixing.biases[0]": "mixing",
        ".family.conditional.log_scale": "scale",
    }
    assert named(fixed).keys() == {".target.mean", ".target.covariance"}


def test_of_an_autoencoder_encoder_scale_and_decoder_are_trained_and_the_data_are_not():
    params, fixed = split(problems()["autoencoder"])
    prefixes = {".family.mixing": "mixing", ".family.conditional": "scale", ".decoder.network": "decoder"}
    found = named(groups(params))
    assert set(found.values()) == set(prefixes.values())
    assert all(
        path.startswith(prefix) == (group == of) for path, group in found.items() for prefix, of in prefixes.items()
    )
    assert found.keys() == named(params).keys()
    assert named(fixed).keys() == {".data.pixels"}
    np.testing.assert_array_equal(fixed.data.pixels, BITS)


def test_of_two_oracles_every_array_of_theta_is_trained():
    params, fixed = split(problems()["oracles"])
    assert named(groups(params)) == {f".theta{path}": "theta" for path in ("['a']", "['b'][0]", "['b'][1]")}
    assert {type(leaf) for leaf in jax.tree.leaves(fixed)} == {type(ORACLES.inner)}


class Inner(eqx.Module):
    free: jax.Array
    held: jax.Array = constant()
    rows: jax.Array = data_rows()


class Outer(eqx.Module):
    inner: Inner = trained("net")
    parts: dict = trained("others")
    whole: jax.Array = trained("net")
    name: str = "outer"


def nested() -> Outer:
    one = jnp.ones(1)
    return Outer(Inner(one, one, one), {"list": [Inner(one, one, one), one]}, jnp.arange(3))


def test_a_declaration_further_down_overrides_the_one_above_it():
    assert named(groups(nested())) == {
        ".inner.free": "net",
        ".parts['list'][0].free": "others",
        ".parts['list'][1]": "others",
        ".whole": "net",
    }
    rows = {path for path, flag in named(is_rows(nested())).items() if flag}
    assert rows == {".inner.rows", ".parts['list'][0].rows"}


def test_only_floating_point_arrays_of_a_trained_field_are_trained():
    params, fixed = split(nested())
    assert named(params).keys() == {".inner.free", ".parts['list'][0].free", ".parts['list'][1]"}
    assert ".whole" in named(fixed)


class Forgotten(eqx.Module):
    inner: Inner = trained("net")
    scale: jax.Array | float = 1.0


def test_an_array_without_a_declaration_is_an_error_that_names_it():
    inner = nested().inner
    message = (
        r"the array \.scale of Forgotten has no declared role: declare its field with trained\(group\), constant\(\)"
    )
    for look in (split, groups, is_rows):
        with pytest.raises(CiviError, match=message):
            look(Forgotten(inner, jnp.ones(2)))
    assert named(split(Forgotten(inner, 2.0))[0]).keys() == {".inner.free"}


def test_a_declared_field_above_makes_up_for_it():
    class Holder(eqx.Module):
        part: Forgotten = constant()

    params, fixed = split(Holder(Forgotten(nested().inner, jnp.ones(2))))
    assert named(params).keys() == {".part.inner.free"}
    assert ".part.scale" in named(fixed)


def rows_of(tree) -> set:
    return {path for path, flag in named(is_rows(tree)).items() if flag}


def test_rows_of_data_are_found_in_every_problem():
    regression = LogisticRegression(jnp.ones((4, 2)), jnp.ones(4))
    words = SentenceData.bucketed(np.ones((3, 4), int), np.array([2, 4, 3]), [np.arange(3)], 7, 6)
    assert rows_of(problems()["autoencoder"]) == {".data.pixels"}
    assert rows_of(eqx.tree_at(lambda problem: problem.data, image_problem(), words)) == {".data.words"}
    assert rows_of(PosteriorProblem(linear_family(), regression, 2)) == {".target.x"}
    assert rows_of(problems()["posterior"]) == rows_of(problems()["oracles"]) == set()
