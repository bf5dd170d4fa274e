"""Agreement with reference draws: errors that are known exactly, and the Monte Carlo floor of the distance."""

import numpy as np
import pytest

from civi.inference.diagnose import agreement as module
from civi.inference.diagnose.agreement import agreement, moment_errors
from montecarlo import LIMIT

DIM = 3
COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 2.0, -0.5], [0.0, -0.5, 0.5]])


def sample(rng, *shape):
    return (rng.normal(size=(*shape, DIM)) @ np.linalg.cholesky(COVARIANCE).T).astype(np.float32)


@pytest.fixture(scope="module")
def reference():
    return sample(np.random.default_rng(0), 5000).astype(np.float64)


def errors(draws, reference):
    found = moment_errors(draws, reference)
    return [found[name] for name in ("sd_ratio_min", "sd_ratio_max", "mean_error_max", "correlation_error_max")]


def test_the_reference_itself_has_no_errors(reference):
    np.testing.assert_allclose(errors(reference, reference), [1, 1, 0, 0], atol=1e-12)


def test_a_shift_is_the_error_of_the_mean_in_sd(reference):
    shift = np.array([0.0, -0.5, 0.2]) * reference.std(0, ddof=1)
    np.testing.assert_allclose(errors(reference + shift, reference), [1, 1, 0.5, 0], atol=1e-9)


def test_scales_are_the_ratios_of_sd(reference):
    scaled = reference.mean(0) + (reference - reference.mean(0)) * [1.0, 1.3, 0.7]
    np.testing.assert_allclose(errors(scaled, reference), [0.7, 1.3, 0, 0], atol=1e-9)


def test_independent_coordinates_have_lost_the_largest_correlation(reference):
    mean, sd = reference.mean(0), reference.std(0, ddof=1)
    factor = np.linalg.cholesky(np.cov(reference, rowvar=False))
    independent = mean + np.linalg.solve(factor, (reference - mean).T).T * sd
    largest = np.abs(np.corrcoef(reference, rowvar=False) - np.eye(DIM)).max()
    assert 0.4 < largest < 0.6
    np.testing.assert_allclose(errors(independent, reference), [1, 1, 0, largest], atol=1e-9)


def test_draws_and_chains_that_are_all_the_same_have_distance_0():
    chain = sample(np.random.default_rng(1), 50)
    found = agreement(np.concatenate([chain, chain]), np.stack([chain] * 4))
    assert found["sliced_wasserstein"] == pytest.approx(0, abs=1e-6)
    assert found["sliced_wasserstein_floor"] == pytest.approx(0, abs=1e-6)
    assert [found[name] for name in ("mean_error_max", "correlation_error_max")] == pytest.approx([0, 0], abs=1e-6)


def squared_distance(rng, size):
    """The squared distance of two independent samples, computed in NumPy with its own random directions."""
    direction = rng.normal(size=(DIM, 200))
    direction /= np.linalg.norm(direction, axis=0)
    first, second = (np.sort(sample(rng, size) @ direction, axis=0) for _ in range(2))
    return ((first - second) ** 2).mean()


def apart(first, second):
    """The difference of two means in units of its standard error."""
    variance = sum(np.var(values, ddof=1) / len(values) for values in (first, second))
    return abs(np.mean(first) - np.mean(second)) / np.sqrt(variance)


@pytest.fixture(scope="module")
def found():
    """80 repetitions: agreement of 300 exact draws with 4 chains of 50 draws, from a single pair of halves."""
    rng = np.random.default_rng(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SPLITS", 1)
        return [agreement(sample(rng, 300), sample(rng, 4, 50)) for _ in range(80)]


@pytest.mark.parametrize("name", ["sliced_wasserstein", "sliced_wasserstein_floor"])
def test_floor_and_distance_of_exact_draws_are_those_of_two_samples_as_large_as_a_half(found, name):
    rng = np.random.default_rng(4)
    squares = [measures[name] ** 2 for measures in found]
    assert apart(squares, [squared_distance(rng, 100) for _ in range(300)]) < LIMIT
    assert apart(squares, [squared_distance(rng, 200) for _ in range(300)]) > LIMIT


def test_the_distance_of_shifted_draws_is_the_shift():
    """A shift by s adds the mean of (s . direction)^2, |s|^2 / dim, to the square; 0.1 allows for sampling noise."""
    rng, shift = np.random.default_rng(5), np.array([3.0, 0.0, -4.0], np.float32)
    found = agreement(sample(rng, 300) + shift, sample(rng, 4, 50))
    assert found["sliced_wasserstein"] == pytest.approx(np.linalg.norm(shift) / np.sqrt(DIM), rel=0.1)
    assert found["sliced_wasserstein_floor"] < 0.5
