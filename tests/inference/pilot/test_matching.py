"""Batch and match against its formula with matrix square roots, and on Gaussians, which one update finds."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from civi.inference.pilot.matching import Diagonals, Normals, white_noise

COUNT, BATCH, DIM = 2, 9, 3
MEAN, SCALE = np.array([2.0, -1.0, 30.0]), np.array([0.1, 1.0, 20.0])
CORRELATION = np.array([[1.0, 0.7, -0.2], [0.7, 1.0, 0.3], [-0.2, 0.3, 1.0]])
COVARIANCE = CORRELATION * np.outer(SCALE, SCALE)


def covariances(normals):
    return normals.factor @ np.swapaxes(normals.factor, 1, 2)


@pytest.fixture(scope="module")
def problem():
    """Two Gaussians, draws and scores of no particular target, and draws that do not count."""
    rng = np.random.default_rng(0)
    normals = Normals(rng.normal(size=(COUNT, DIM)), np.eye(DIM) + 0.3 * rng.normal(size=(COUNT, DIM, DIM)))
    z, score = rng.normal(size=(2, COUNT, BATCH, DIM))
    good = np.ones((COUNT, BATCH), bool)
    good[1, 6:] = False
    score[1, 6:], z[1, 6:] = np.nan, 1e3
    return normals, z, score, good


def by_square_roots(location, covariance, z, score, rate):
    """Theorem 3.1 of Cai et al. (2024): mean, covariance, U and V of one update."""
    zbar, gbar, blend = z.mean(0), score.mean(0), rate / (1 + rate)
    u = rate * np.cov(score.T, bias=True) + blend * np.outer(gbar, gbar)
    v = covariance + rate * np.cov(z.T, bias=True) + blend * np.outer(location - zbar, location - zbar)
    updated = 2 * v @ np.linalg.inv(np.eye(len(v)) + np.real(sqrtm(np.eye(len(v)) + 4 * u @ v)))
    return location / (1 + rate) + blend * (updated @ gbar + zbar), updated, u, v


@pytest.mark.parametrize("rate", [0.3, 7.0, 500.0])
def test_an_update_is_the_one_of_the_formula(problem, rate):
    normals, z, score, good = problem
    rates = rate * np.array([1.0, 3.0])
    updated = normals.matched(z, score, good, rates)
    for i in range(COUNT):
        start = normals.location[i], covariances(normals)[i], z[i][good[i]], score[i][good[i]]
        mean, covariance, u, v = by_square_roots(*start, rates[i])
        found = covariances(updated)[i]
        np.testing.assert_allclose(updated.location[i], mean, rtol=1e-8)
        np.testing.assert_allclose(found, covariance, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(found @ u @ found + found, v, rtol=1e-7, atol=1e-9)
        of_another_rate = by_square_roots(*start, 1.1 * rates[i])
        assert not np.allclose(found, of_another_rate[1], rtol=1e-5)


def test_independent_coordinates_are_updated_as_if_each_were_alone(problem):
    normals, z, score, good = problem
    rates = np.array([0.5, 20.0])
    scale = np.abs(normals.factor[:, 0]) + 0.2
    updated = Diagonals(normals.location, scale).matched(z, score, good, rates)
    for d in range(DIM):
        alone = Normals(normals.location[:, [d]], scale[:, [d], None]).matched(
            z[..., [d]], score[..., [d]], good, rates
        )
        np.testing.assert_allclose(updated.location[:, d], alone.location[:, 0], rtol=1e-10)
        np.testing.assert_allclose(updated.scale[:, d], np.abs(alone.factor[:, 0, 0]), rtol=1e-10)


@pytest.mark.parametrize("rate", [1e10, 1.0])
def test_a_large_rate_finds_a_gaussian_in_one_update_and_a_small_one_does_not(rate):
    start = Normals.around(np.zeros((1, DIM)), 0.5)
    z = start.draws(white_noise(np.random.default_rng(1), BATCH, DIM))
    score = -(z - MEAN) @ np.linalg.inv(COVARIANCE)
    found = start.matched(z, score, np.ones((1, BATCH), bool), np.array([rate]))
    error = np.abs(covariances(found)[0] / np.outer(SCALE, SCALE) - CORRELATION).max()
    off = np.abs((found.location[0] - MEAN) / SCALE).max()
    assert (max(error, off) < 1e-4) == (rate > 1)


@pytest.mark.parametrize("rate", [1e10, 1.0])
def test_a_large_rate_finds_independent_coordinates_in_one_update(rate):
    start = Diagonals.around(np.zeros((1, DIM)), 0.5)
    z = start.draws(white_noise(np.random.default_rng(1), BATCH, DIM))
    found = start.matched(z, -(z - MEAN) / SCALE**2, np.ones((1, BATCH), bool), np.array([rate]))
    error = max(np.abs(found.scale / SCALE - 1).max(), np.abs((found.location - MEAN) / SCALE).max())
    assert (error < 1e-4) == (rate > 1)


def test_a_rate_of_almost_0_changes_nothing(problem):
    normals, z, score, good = problem
    tiny = np.full(COUNT, 1e-12)
    updated = normals.matched(z, score, good, tiny)
    np.testing.assert_allclose(updated.location, normals.location, atol=1e-9)
    np.testing.assert_allclose(covariances(updated), covariances(normals), atol=1e-8)
    diagonals = Diagonals(normals.location, np.ones((COUNT, DIM)))
    np.testing.assert_allclose(diagonals.matched(z, score, good, tiny).scale, 1, atol=1e-8)
    assert not np.allclose(normals.matched(z, score, good, 1e9 * tiny).location, normals.location, atol=1e-6)


def test_draws_and_entropy_are_those_of_the_gaussian():
    factor = np.linalg.cholesky(COVARIANCE)
    normals = Normals(MEAN[None], factor[None])
    noise = white_noise(np.random.default_rng(2), 50, DIM)
    draws = normals.draws(noise)[0]
    np.testing.assert_allclose(draws.mean(0), MEAN, rtol=1e-10)
    np.testing.assert_allclose(np.cov(draws.T, bias=True), COVARIANCE, rtol=1e-8)
    exact = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * COVARIANCE)[1]
    np.testing.assert_allclose(normals.entropy(), exact)
    np.testing.assert_allclose(normals.widened(2.0).entropy(), exact + DIM * np.log(2))
    diagonals = Diagonals(MEAN[None], SCALE[None])
    np.testing.assert_allclose(diagonals.entropy(), 0.5 * np.log(2 * np.pi * np.e * SCALE**2).sum())
    np.testing.assert_allclose(diagonals.draws(noise)[0].std(0), SCALE)


@pytest.mark.parametrize(("count", "white"), [(40, True), (6, True), (5, False), (3, False)])
def test_noise_is_white_if_there_is_enough_of_it(count, white):
    noise = white_noise(np.random.default_rng(3), count, 4)
    np.testing.assert_allclose(noise.mean(0), 0, atol=1e-12)
    assert np.allclose(noise.T @ noise / count, np.eye(4), atol=1e-9) == white
