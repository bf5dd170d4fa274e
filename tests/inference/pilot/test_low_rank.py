"""The frame for many dimensions finds the few directions in which a Gaussian differs from independent coordinates."""

import jax.numpy as jnp
import numpy as np
import pytest

from civi.inference.pilot.gaussian import Guess
from civi.inference.pilot.low_rank import RANK, low_rank_frame
from civi.inference.pilot.slopes import TargetSlopes
from civi.problem.target import LogDensity

DIM = 320
RNG = np.random.default_rng(0)
SCALE, MEAN = np.exp(RNG.normal(size=DIM)), RNG.normal(size=DIM)
BASIS = np.linalg.qr(RNG.normal(size=(DIM, 3)))[0]
CURVATURE = np.array([1 / 16, 9.0, 25.0])


def log_density(z):
    """The Gaussian with precision I + Q diag(curvature - 1) Q^T of (z - mean) / scale."""
    y = (z - MEAN) / SCALE
    return -0.5 * (y @ y + ((y @ BASIS) ** 2) @ (CURVATURE - 1))


@pytest.fixture(scope="module")
def frame():
    """Found from a Gaussian with the right scales whose location is off along these directions."""
    away = SCALE * (BASIS @ np.array([4.0, 0.3, -0.2]))
    slopes = TargetSlopes(LogDensity(log_density, DIM), 64)
    return low_rank_frame(slopes, Guess(0.0, MEAN + away, SCALE), np.zeros(0))


def test_the_target_is_standard_normal_in_the_frame(frame):
    q, stretch = np.asarray(frame.basis, np.float64), np.asarray(frame.stretch, np.float64)
    p = np.eye(DIM) + (q * (stretch - 1)) @ q.T
    precision = np.eye(DIM) + (BASIS * (CURVATURE - 1)) @ BASIS.T
    np.testing.assert_allclose(np.linalg.eigvalsh(p @ precision @ p), 1, atol=0.02)
    assert np.linalg.eigvalsh(precision)[-1] == pytest.approx(25)


def test_the_location_moves_to_the_mean_along_these_directions(frame):
    off = (np.asarray(frame.location, np.float64) - MEAN) / SCALE
    np.testing.assert_allclose(BASIS.T @ off, 0, atol=0.02)


def test_unused_directions_change_nothing(frame):
    used = np.abs(np.asarray(frame.basis)).sum(0) > 0
    assert (frame.basis.shape, frame.stretch.shape, used.sum()) == ((DIM, RANK), (RANK,), 3)
    np.testing.assert_array_equal(np.asarray(frame.stretch)[~used], 1)
    np.testing.assert_allclose(np.sort(np.asarray(frame.stretch)[used]), [1 / 5, 1 / 3, 4], rtol=0.02)
    assert float(frame.log_volume(frame.location)) == pytest.approx(np.log(SCALE).sum() + np.log(4 / 15), abs=0.03)


def test_a_density_of_independent_coordinates_has_no_directions():
    slopes = TargetSlopes(LogDensity(lambda z: -0.5 * jnp.sum(((z - MEAN) / SCALE) ** 2), DIM), 64)
    frame = low_rank_frame(slopes, Guess(0.0, MEAN, SCALE), np.zeros(0))
    np.testing.assert_array_equal(frame.basis, 0)
    np.testing.assert_allclose(frame.location, MEAN, rtol=1e-5)
