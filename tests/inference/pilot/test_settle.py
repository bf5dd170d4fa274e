"""The end of a pilot that climbs on a subsample: its Gaussians are moved to where all rows put them."""

import numpy as np

from civi.inference.pilot.gaussian import Guess, Search
from civi.inference.pilot.slopes import TargetSlopes
from civi.problem.target import LogDensity

MEAN, MODE = np.array([0.6, -0.3]), np.array([0.5, 0.5])


def settled(target):
    elsewhere = LogDensity(lambda z: -(z**2).sum(), 2)
    slopes = (TargetSlopes(elsewhere, 64), TargetSlopes(target, 64))
    search = Search(*slopes, (), dim=2, starts=1, draws=64, rng=np.random.default_rng(0))
    best = Guess(5.0, np.zeros(2), 0.1 * np.eye(2))
    other = Guess(4.0, MODE, 0.1 * np.eye(2))
    return search.settle(target, best, np.zeros(0), [best, other])


def test_all_gaussians_move_with_the_best_one():
    target = LogDensity(lambda z: -0.5 * ((z - MEAN) ** 2).sum() / 0.01 - 7.0, 2)
    found = settled(target)
    exact = np.log(2 * np.pi * 0.01) - 7.0
    best, other = found.guesses
    np.testing.assert_allclose(best.location, MEAN, atol=0.02)
    np.testing.assert_allclose(other.location - best.location, MODE, atol=1e-9)
    assert abs(best.elbo - exact) < 0.1
    assert abs(best.elbo - other.elbo - 1.0) < 1e-9
    np.testing.assert_allclose(found.framed.frame.location, MEAN, atol=0.02)
    assert found.kl < 0.01
