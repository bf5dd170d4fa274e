"""Climbs of the ELBO: never down, to the Gaussian of highest ELBO, and away from where log p is not finite."""

import numpy as np
import pytest

from civi.inference.pilot.climb import climb, elbo_of
from civi.inference.pilot.matching import Diagonals, Normals, white_noise

LOG_2PI = np.log(2 * np.pi)
FUNNEL = 6


def run(slopes, normals, batch=32, iterations=40, seed=0):
    degrees = np.zeros((len(normals.location), 0))
    return climb(slopes, normals, degrees, np.random.default_rng(seed), batch, iterations)


def funnel(z, degrees):
    """v ~ N(0, 1) and five x ~ N(0, exp(v)): the mode is at v = -2.5, where there is hardly any mass."""
    v, x = z[..., 0], z[..., 1:]
    log_p = -0.5 * v**2 - 0.5 * (x**2).sum(-1) * np.exp(-v) - 0.5 * (FUNNEL - 1) * v - 0.5 * FUNNEL * LOG_2PI
    slope = -v + 0.5 * (x**2).sum(-1) * np.exp(-v) - 0.5 * (FUNNEL - 1)
    return log_p, np.concatenate([slope[..., None], -x * np.exp(-v)[..., None]], axis=-1)


def elbo_on(normals, noise):
    return elbo_of(funnel(normals.draws(noise), None)[0], normals)


@pytest.mark.parametrize("kind", [Normals, Diagonals])
def test_no_update_lowers_the_elbo_on_its_own_draws(kind):
    start = kind.around(np.random.default_rng(1).uniform(-2, 2, (3, FUNNEL)), 0.1)
    rng, before, gains = np.random.default_rng(0), start, []
    for iterations in range(1, 15):
        after, noise = run(funnel, start, iterations=iterations).normals, white_noise(rng, 32, FUNNEL)
        gains.append(elbo_on(after, noise) - elbo_on(before, noise))
        before = after
    gains = np.array(gains)
    assert (gains >= 0).all()
    assert (gains == 0).any(), "some updates would have lowered it and were rejected"
    assert (gains > 1).any()


@pytest.mark.parametrize("kind", [Normals, Diagonals])
def test_a_funnels_gaussian_is_found_and_not_its_neck(kind):
    """The best Gaussian has v ~ N(0, 1 / 3.5) and the ELBO -log(3.5) / 2; the Laplace approximation has -4.75."""
    start = kind.around(np.random.default_rng(1).uniform(-2, 2, (4, FUNNEL)), 0.1)
    climbed = run(funnel, start, batch=64)
    noise = white_noise(np.random.default_rng(5), 20_000, FUNNEL)
    mode = np.r_[-2.5, np.zeros(FUNNEL - 1)][None]
    laplace = Diagonals(mode, np.r_[1.0, np.full(FUNNEL - 1, np.exp(-1.25))][None])
    best, found = -0.5 * np.log(3.5), elbo_on(climbed.normals, noise)
    assert elbo_on(laplace, noise)[0] == pytest.approx(-4.745, abs=0.1)
    assert (found < best + 0.02).all()
    assert found.max() > best - 0.1
    assert (found > -4.745 + 3).all()
    assert abs(climbed.normals.location[found.argmax(), 0]) < 0.3


def test_a_gaussian_of_any_scales_is_found():
    dim, rng = 7, np.random.default_rng(2)
    scales = rng.permutation(np.logspace(-3, 3, dim))
    root = rng.normal(size=(dim, 2 * dim))
    covariance = root @ root.T
    sd = np.sqrt(np.diag(covariance))
    covariance *= np.outer(scales / sd, scales / sd)
    mean, precision = scales * rng.normal(size=dim), np.linalg.inv(covariance)

    def slopes(z, degrees):
        score = -(z - mean) @ precision
        return 0.5 * (score * (z - mean)).sum(-1), score

    climbed = run(slopes, Normals.around(rng.uniform(-2, 2, (2, dim)), 0.1))
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    for location, factor in zip(*climbed.normals, strict=True):
        whitened = whiten @ factor
        np.testing.assert_allclose(whitened @ whitened.T, np.eye(dim), atol=1e-3)
        np.testing.assert_allclose(whiten @ (location - mean), 0, atol=1e-3)
    np.testing.assert_allclose(climbed.elbo, 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1], atol=1e-2)


def test_a_start_where_the_density_is_not_finite_comes_back():
    """N(1, 0.3^2), and not a number beyond 4: the first start is at 10, the second at 2."""

    def slopes(z, degrees):
        log_p = np.where(np.abs(z[..., 0]) < 4, -0.5 * ((z[..., 0] - 1) / 0.3) ** 2, np.nan)
        return log_p, np.where(np.isfinite(log_p)[..., None], -(z - 1) / 0.09, np.nan)

    climbed = run(slopes, Normals.around(np.array([[10.0], [2.0]]), 0.1))
    np.testing.assert_allclose(climbed.normals.location, 1, atol=1e-3)
    np.testing.assert_allclose(np.abs(climbed.normals.factor), 0.3, atol=1e-3)
    assert run(slopes, Normals.around(np.array([[10.0]]), 0.1), iterations=1).elbo == -np.inf


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_density_that_is_nowhere_finite_has_no_elbo(value):
    def slopes(z, degrees):
        return np.full(z.shape[:2], value), np.zeros(z.shape)

    np.testing.assert_array_equal(run(slopes, Normals.around(np.ones((2, 3)), 1.0)).elbo, -np.inf)
