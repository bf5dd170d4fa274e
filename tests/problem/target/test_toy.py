"""Toy targets against the formulas of appendix B, written with SciPy, and against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.problem.target import banana, eight_gaussians, star, student, two_modal
from montecarlo import agrees, first_and_second_moments


def normal(mean, covariance, z):
    return stats.multivariate_normal(mean, covariance).logpdf(z)


def two_modal_log_density(z):
    return np.logaddexp(normal([-2, 0], np.eye(2), z), normal([2, 0], np.eye(2), z)) - np.log(2)


def star_log_density(z):
    rising, falling = [[2, 1.8], [1.8, 2]], [[2, -1.8], [-1.8, 2]]
    return np.logaddexp(normal([0, 0], rising, z), normal([0, 0], falling, z)) - np.log(2)


def banana_log_density(z):
    return normal([0, 0], [[1, 0.9], [0.9, 1]], np.stack([z[:, 0], z[:, 1] + z[:, 0] ** 2 + 1], axis=1))


def ring_log_density(z):
    corners = 4 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)
    return np.logaddexp.reduce([normal(corner, 0.25 * np.eye(2), z) for corner in corners]) - np.log(8)


TOYS = {
    "two-modal": (two_modal(), two_modal_log_density, (-8, 8), (-6, 6)),
    "star": (star(), star_log_density, (-9, 9), (-9, 9)),
    "banana": (banana(), banana_log_density, (-5.5, 5.5), (-32, 5)),
    "eight-gaussians": (eight_gaussians(), ring_log_density, (-7, 7), (-7, 7)),
}
NEXT_TOY = {"two-modal": "star", "star": "banana", "banana": "eight-gaussians", "eight-gaussians": "two-modal"}


def log_prob_of_rows(toy, z):
    return np.asarray(jax.jit(jax.vmap(toy.log_prob))(jnp.asarray(z, jnp.float32)), np.float64)


@pytest.fixture(scope="module", params=sorted(TOYS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def grid(name):
    """Points of a grid that covers the target, and the probability mass of the cell around each point."""
    toy, _, *ranges = TOYS[name]
    sides = [np.linspace(*side, 600) for side in ranges]
    z = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    area = np.prod([side[1] - side[0] for side in sides])
    return z, np.exp(log_prob_of_rows(toy, z)) * area


def test_density_is_that_of_appendix_b(name):
    z = np.random.default_rng(0).normal(size=(200, 2)) * 2
    log_density = log_prob_of_rows(TOYS[name][0], z)
    np.testing.assert_allclose(log_density, TOYS[name][1](z), rtol=2e-5, atol=2e-5)
    assert not np.allclose(log_density, TOYS[NEXT_TOY[name]][1](z), rtol=0.1, atol=0.1)


def test_density_integrates_to_one(grid):
    _, mass = grid
    assert mass.sum() == pytest.approx(1, abs=1e-3)


def test_exact_draws_have_the_moments_of_the_density(name, grid):
    z, mass = grid
    by_quadrature = mass @ first_and_second_moments(z)
    draws, others = (TOYS[which][0].sample(jax.random.key(0), 20000) for which in (name, NEXT_TOY[name]))
    assert agrees(first_and_second_moments(draws), by_quadrature)
    assert not agrees(first_and_second_moments(others), by_quadrature)


def test_exact_draws_have_the_entropy_of_the_density(name, grid):
    z, mass = grid
    toy = TOYS[name][0]
    mean_log_density = mass @ log_prob_of_rows(toy, z)
    draws = toy.sample(jax.random.key(1), 20000)
    assert agrees(log_prob_of_rows(toy, draws), mean_log_density)
    assert not agrees(log_prob_of_rows(toy, 1.05 * draws), mean_log_density)


def student_log_density(z, factor=((1.0, 0.0), (0.8, 0.6))):
    whitened = np.linalg.solve(factor, z.T)
    return stats.t(2).logpdf(whitened).sum(0) - np.log(abs(np.linalg.det(factor)))


def test_the_heavy_tailed_density_is_that_of_its_formula():
    z = np.random.default_rng(0).standard_t(2, size=(500, 2)) * 3
    log_density = log_prob_of_rows(student(), z)
    np.testing.assert_allclose(log_density, student_log_density(z), rtol=2e-5, atol=2e-5)
    assert not np.allclose(log_density, student_log_density(z, ((1.0, 0.0), (0.5, 0.6))), rtol=0.1)


def test_exact_draws_of_the_heavy_tailed_target_have_its_distribution():
    """Kolmogorov-Smirnov: the whitened entries, and the first coordinate, have Student's t distribution."""
    draws = np.asarray(student().sample(jax.random.key(0), 20_000), np.float64)
    whitened = np.linalg.solve([[1.0, 0.0], [0.8, 0.6]], draws.T)
    for entry in (*whitened, draws[:, 0]):
        assert stats.kstest(entry, stats.t(2).cdf).pvalue > 1e-3
        assert stats.kstest(entry, stats.t(3).cdf).pvalue < 1e-6
    assert abs(stats.spearmanr(*whitened).statistic) < 4.5 / np.sqrt(20_000)
