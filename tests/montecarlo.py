"""Comparison of a Monte Carlo mean with an exact answer, in units of its standard error."""

import numpy as np

LIMIT = 4.5


def z_scores(draws, expected) -> np.ndarray:
    """(mean over the first axis - expected) / standard error."""
    draws = np.asarray(draws, np.float64)
    standard_error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return (draws.mean(axis=0) - np.asarray(expected, np.float64)) / standard_error


def agrees(draws, expected) -> bool:
    """Whether every coordinate of the mean is within LIMIT standard errors of the expected value."""
    return bool(np.abs(z_scores(draws, expected)).max() < LIMIT)


def first_and_second_moments(z) -> np.ndarray:
    """All coordinates and all products of two coordinates, for each row of z."""
    z = np.asarray(z, np.float64)
    left, right = np.triu_indices(z.shape[1])
    return np.concatenate([z, z[:, left] * z[:, right]], axis=1)
