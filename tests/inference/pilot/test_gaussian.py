"""The Gaussian pilot finds modes that its first starts do not lead to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.inference.pilot import Gaussian, gaussian
from civi.problem.target import LogDensity


def three_modes(z):
    """N(-9, 1), N(0, 1) and N(9, 1) with equal weights: every start in (-2, 2) leads to 0."""
    return jax.nn.logsumexp(jnp.stack([-0.5 * (z - place) @ (z - place) for place in (-9, 0, 9)]))


def distances():
    """Distances from 0 of the locations found from the eight first starts and from the eight wider ones."""
    found = Gaussian(starts=8).guesses(LogDensity(three_modes, 1))
    assert len(found) == 16
    return np.split(np.abs([guess.location[0] for guess in found]), 2)


def test_wider_starts_find_a_mode_outside_of_the_first_starts():
    first, wider = distances()
    assert first.max() < 2
    assert wider.max() == pytest.approx(9, abs=0.5)


def test_starts_that_are_not_wide_miss_it(monkeypatch):
    monkeypatch.setattr(gaussian, "WIDER", 0.1)
    assert distances()[1].max() < 2
