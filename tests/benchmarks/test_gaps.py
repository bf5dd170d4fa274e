"""The gaps of a linear-Gaussian autoencoder, whose evidence, posterior and best Gaussians have closed forms.

x | z ~ N(A z + b, s^2 I) and z ~ N(0, I): the posterior has the precision P = I + A^T A / s^2. The diagonal Gaussian of
least KL divergence has the precisions P_ii, and its gap is (sum_i log P_ii - log det P) / 2.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gaps_measure as measure
from autoencoding import LinearDecoder
from civi.update import Samples
from gaps import cell

A = np.array([[1.0, 0.9], [-0.5, -0.4], [0.6, 0.8], [0.3, 0.2]])
B = np.array([0.3, -0.2, 0.1, 0.5])
SD = 0.8
X = np.random.default_rng(3).normal(size=(3, 4))
PRECISION = np.eye(2) + A.T @ A / SD**2
LOG_P = stats.multivariate_normal(B, A @ A.T + SD**2 * np.eye(4)).logpdf(X)
GAP = (np.log(np.diag(PRECISION)).sum() - np.linalg.slogdet(PRECISION)[1]) / 2
DECODER = LinearDecoder(jnp.asarray(A, jnp.float32), jnp.asarray(B, jnp.float32), SD)
DATA = jnp.asarray(X, jnp.float32)
START = measure.Frame(jnp.full((3, 2), 0.2), jnp.tile(jnp.array([[0.5, 0.0], [0.0, 0.8]]), (3, 1, 1)))
GAUSSIAN_FIT = replace(measure.GAUSSIAN_FIT, steps=700)
MIXED_FIT = replace(measure.MIXED_FIT, steps=400, samples=Samples(16, 50))
KEYS = jax.random.split(jax.random.key(0), 8)


@pytest.fixture(scope="module")
def full():
    return measure.fit(measure.FULL, GAUSSIAN_FIT, DECODER, DATA, START, KEYS[0])


@pytest.fixture(scope="module")
def semi_implicit(full):
    """From a frame that is too wide and off the posterior's centre, so that the fit has something to learn."""
    frame = measure.gaussian_frame(full)
    off = measure.Frame(frame.location + 0.2, 1.3 * frame.factor)
    return measure.fit(measure.NEAR, MIXED_FIT, DECODER, DATA, off, KEYS[1])


def test_the_full_gaussian_is_the_posterior(full):
    np.testing.assert_allclose(full.elbo, LOG_P, atol=2e-3)
    location, factor = measure.gaussian_frame(full)
    np.testing.assert_allclose(location, (X - B) @ A @ np.linalg.inv(PRECISION) / SD**2, atol=5e-3)
    covariance = np.tile(np.linalg.inv(PRECISION), (3, 1, 1))
    np.testing.assert_allclose(factor @ jnp.swapaxes(factor, 1, 2), covariance, atol=5e-3)


def test_the_diagonal_gaussian_has_its_exact_gap():
    """A log weight is quadratic in z; its variance is the squared correlation of the posterior."""
    found = measure.fit(measure.DIAGONAL, GAUSSIAN_FIT, DECODER, DATA, START, KEYS[2])
    squared_correlation = PRECISION[0, 1] ** 2 / (PRECISION[0, 0] * PRECISION[1, 1])
    error = 4 * np.sqrt(squared_correlation / (3 * measure.OUTER))
    assert error < GAP / 4
    assert abs((LOG_P - found.elbo).mean() - GAP) < error


def test_the_semi_implicit_q_closes_the_gap(semi_implicit):
    assert abs(LOG_P - semi_implicit.elbo).max() < 0.02
    assert GAP > 10 * 0.02


def test_the_evidence_by_quadrature():
    grid = measure.plane(5.0, 0.05)
    np.testing.assert_allclose(measure.quadrature(DECODER, DATA, grid), LOG_P, atol=1e-3)
    part = grid[len(grid) // 2 :]
    assert abs(measure.quadrature(DECODER, DATA, part) - LOG_P).max() > 0.1


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_the_evidence_by_importance_sampling(semi_implicit, shift):
    """Also from a q that is off the posterior; without the frame's Jacobian the result is rejected."""
    location, factor = semi_implicit.frame
    moved = semi_implicit._replace(frame=measure.Frame(location + shift, factor))
    found = measure.importance(moved, DECODER, DATA, KEYS[3], blocks=2)
    assert (found.effective > 0.8).all() if shift == 0 else (found.effective < 0.7).all()
    error = 4 * np.sqrt((1 / np.asarray(found.effective) - 1) / (2 * measure.BLOCK)) + 1e-3
    assert (abs(found.log_p - LOG_P) < error).all()
    assert (abs(found.log_p - jnp.linalg.slogdet(factor)[1] - LOG_P) > error).all()


def test_starts_at_other_latents_and_between_two_fits(full):
    """The likeliest of three latents is the posterior mean; fits of equal ELBO that lie apart are joined halfway."""
    location, factor = measure.gaussian_frame(full)
    z_M = jnp.concatenate([location[:1] + 1.0, location[:1], location[:1] - 2.0])
    np.testing.assert_array_equal(measure.likeliest(DECODER, DATA[:1], z_M, START).location[0], location[0])
    apart = full._replace(frame=full.frame._replace(location=full.frame.location + jnp.array([2.0, 0.0])))
    middle, joined = measure.joined(full, apart)
    np.testing.assert_allclose(middle, location + jnp.array([1.0, 0.0]), atol=1e-5)
    covariance = factor @ jnp.swapaxes(factor, 1, 2)
    expected = covariance + jnp.array([[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(joined @ jnp.swapaxes(joined, 1, 2), expected, atol=1e-5)


def test_the_better_of_two_fits_is_chosen_for_every_datum(full):
    """A fit whose frame is marked and whose ELBO is lower on the first datum and higher on the others."""
    other = full._replace(
        elbo=full.elbo + jnp.array([-1.0, 1.0, 1.0]), frame=full.frame._replace(location=full.frame.location + 9)
    )
    chosen = measure.best(full, other)
    np.testing.assert_array_equal(chosen.elbo, [full.elbo[0], *other.elbo[1:]])
    np.testing.assert_array_equal(
        chosen.frame.location - full.frame.location > 5, [[False] * 2, [True] * 2, [True] * 2]
    )


def test_a_cell_is_the_mean_and_standard_error():
    assert cell(np.array([1.0, 2.0, 3.0])) == "2.00 ± 0.58"
