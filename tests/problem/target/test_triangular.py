"""The triangular map against automatic differentiation and closed forms: volume, inverse, dependence and start."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.problem.target.triangular import MEAN, SLOPE, TriangularMap, governing

DIM = 6
W = np.random.default_rng(0).normal(size=(8, DIM))


def single(array):
    return jnp.asarray(array, jnp.float32)


def in_double(curve):
    return jax.tree.map(lambda part: np.asarray(part, np.float64), curve)


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda part: single(0.3 * rng.normal(size=part.shape)), TriangularMap.identity(DIM))


@pytest.fixture(scope="module")
def jacobians(curve):
    return np.asarray(jax.jit(jax.vmap(jax.jacfwd(lambda w: curve.outward(w)[0])))(single(W)), np.float64)


def test_the_volume_is_that_of_the_jacobian(curve, jacobians):
    exact = np.linalg.slogdet(jacobians)[1]
    np.testing.assert_allclose(curve.outward(single(W))[1], exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(in_double(curve).outward(W)[1], exact, rtol=1e-4, atol=1e-4)
    without_tails = np.log(np.abs(np.diagonal(jacobians, axis1=1, axis2=2))[:, 1:]).sum(1)
    assert not np.allclose(without_tails, exact, atol=0.05)


def test_each_coordinate_depends_on_earlier_ones_only(jacobians):
    np.testing.assert_array_equal(np.triu(jacobians, 1), 0)
    assert (np.abs(jacobians[:, *np.tril_indices(DIM, -1)]).max(0) > 1e-3).all()
    assert np.ptp(jacobians[:, -1, 0]) > 0.1


def test_inward_undoes_outward_in_both_precisions(curve):
    np.testing.assert_allclose(curve.inward(curve.outward(single(W))[0]), W, rtol=1e-3, atol=1e-3)
    exact = in_double(curve)
    back = exact.inward(exact.outward(W)[0])
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, W, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 40])
def test_it_starts_as_the_identity(dim):
    start, w = TriangularMap.identity(dim), np.random.default_rng(2).normal(size=(3, dim))
    moved, volume = in_double(start).outward(w)
    np.testing.assert_allclose(moved, w, atol=1e-12)
    np.testing.assert_allclose(volume, 0, atol=1e-12)
    assert len(start.linear) == governing(dim) == min(16, dim - 1)


def test_skewness_and_tail_keep_mean_and_variance_to_first_order():
    """The derivatives of mean and log sd of y with respect to skewness and tail are 0, by quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()

    def moments(name):
        start = in_double(TriangularMap.identity(1))
        bent = eqx.tree_at(lambda curve: getattr(curve, name), start, np.full(1, 1e-4))
        y = bent.outward(points[:, None])[0][:, 0]
        mean = weights @ y
        return np.array([mean, 0.5 * np.log(weights @ (y - mean) ** 2)]) / 1e-4

    for name in ("skew", "tail"):
        np.testing.assert_allclose(moments(name), 0, atol=5e-3)
    root = np.sqrt(1 + points**2)
    np.testing.assert_allclose(
        [weights @ root, weights @ (points * np.arcsinh(points) * root)], [MEAN, SLOPE], rtol=1e-3
    )
