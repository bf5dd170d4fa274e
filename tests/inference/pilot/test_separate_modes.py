"""Separate modes among the Gaussians of climbs, and the scouts that find modes that no climb has found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.family import Architecture
from civi.inference.pilot.gaussian import Guess
from civi.inference.pilot.modes import ModalArchitecture, separate_modes
from civi.inference.pilot.scouts import scouted
from civi.inference.pilot.slopes import TargetSlopes
from civi.problem.target import CurvedFrame, LogDensity

PLACES, SCALES, SHARES = np.array([[0.0, 0.0], [9.0, 3.0]]), np.array([1.0, 0.5]), np.array([0.6, 0.4])
NONE = np.zeros(0)


def two_modes(z, distance=1.0):
    """0.6 N((0, 0), I) + 0.4 N(distance (9, 3), I / 4), normalised."""
    away = ((z - distance * PLACES) ** 2).sum(1) / SCALES**2
    return jax.nn.logsumexp(jnp.log(SHARES) - 0.5 * away - 2 * jnp.log(SCALES)) - jnp.log(2 * jnp.pi)


def guess(mode, distance=1.0, elbo=None):
    found = np.log(SHARES[mode]) if elbo is None else elbo
    return Guess(float(found), distance * PLACES[mode], SCALES[mode] * np.eye(2))


def found_modes(log_density, guesses):
    slopes = TargetSlopes(LogDensity(log_density, 2), 256)
    frame = CurvedFrame.of(guesses[0].location, guesses[0].factor)
    return separate_modes(slopes, guesses, frame, NONE, np.random.default_rng(0))


def test_modes_far_apart_have_their_places_and_shares():
    found = found_modes(two_modes, [guess(0), guess(1), guess(0), guess(1)])
    np.testing.assert_allclose(found.location, PLACES, atol=1e-6)
    np.testing.assert_allclose(np.exp(found.log_scale), SCALES[:, None] * np.ones(2), rtol=1e-6)
    np.testing.assert_allclose(found.share, SHARES, atol=1e-4)


@pytest.mark.parametrize(
    ("log_density", "guesses"),
    [
        (lambda z: two_modes(z, 0.2), [guess(0), guess(1, 0.2)]),
        (lambda z: -0.5 * (z[0] ** 2 / 400 + z[1] ** 2), [guess(0), guess(1)]),
        (two_modes, [guess(0), guess(1, elbo=np.log(SHARES[0]) - 5)]),
        (lambda z: two_modes(z) - 20 * (z[0] > 5), [guess(0), guess(1)]),
        (lambda z: jnp.where(z[0] > 5, jnp.nan, two_modes(z)), [guess(0), guess(1)]),
    ],
    ids=["overlapping", "two climbs on one ridge", "low by its climb", "low by the target", "not finite"],
)
def test_other_gaussians_are_not_modes(log_density, guesses):
    assert found_modes(log_density, guesses) is None


def test_a_family_starts_with_the_modes():
    modes = found_modes(two_modes, [guess(0), guess(1)])
    architecture = ModalArchitecture.of(Architecture.at_pilot(3), modes)
    family = architecture.init(2, jax.random.key(0))
    eps = family.noise.sample(jax.random.key(1), 20_000)
    mode, mixed = np.asarray(family.mixing.mode(eps)), family.mix(eps)
    location, log_scale = (np.asarray(part) for part in family.conditional.location_and_log_scale(mixed))
    np.testing.assert_allclose((mode == 1).mean(), (SHARES[1] + 0.5) / 2, atol=4.5 * np.sqrt(0.25 / 20_000))
    for i in range(2):
        np.testing.assert_allclose(location[mode == i].mean(0), PLACES[i], atol=0.2)
        np.testing.assert_allclose(np.exp(log_scale[mode == i]), 0.954 * SCALES[i], rtol=1e-3)
    shapes = architecture.template(2).mixing
    assert shapes.offset_M.shape == family.mixing.offset_M.shape


def places_of_scouts(log_density, known):
    slopes = TargetSlopes(LogDensity(log_density, 2), 256)
    return scouted(slopes, known[0], known, NONE, np.random.default_rng(0))


def test_scouts_find_a_narrow_mode_far_from_the_best_gaussian():
    found = places_of_scouts(two_modes, [guess(0)])
    assert len(found) == 1
    np.testing.assert_allclose(found[0], PLACES[1], atol=0.01)


@pytest.mark.parametrize(
    ("log_density", "known"),
    [
        (two_modes, [guess(0), guess(1)]),
        (lambda z: -jnp.log1p(z @ z) - 0.01 * z @ z, [guess(0)]),
        (lambda z: -0.5 * (z[0] ** 2 + (z[1] - 0.3 * z[0] ** 2) ** 2), [guess(0)]),
    ],
    ids=["known", "heavy tails", "banana"],
)
def test_scouts_find_nothing_where_there_is_no_other_mode(log_density, known):
    assert len(places_of_scouts(log_density, known)) == 0
