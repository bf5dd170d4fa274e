"""The leading directions of a funnel, and the frame that has them first, against the exact ones."""

import numpy as np

from civi.inference.pilot.gaussian import Guess
from civi.inference.pilot.governing import curved_frame, leading_directions

DIM = 20
RNG = np.random.default_rng(0)
DIRECTION = np.linalg.qr(RNG.normal(size=(DIM, 1)))[0][:, 0]


def funnel_score(w):
    """The gradient of -g^2/2 - (DIM - 1) c g - e^(-2 c g) |v|^2 / 2, for g along DIRECTION and v across it."""
    c = 0.3
    g = w @ DIRECTION
    across = w - np.outer(g, DIRECTION)
    along = -g - c * (DIM - 1) + c * np.exp(-2 * c * g) * (across**2).sum(1)
    return np.outer(along, DIRECTION) - np.exp(-2 * c * g)[:, None] * across


def test_the_first_direction_is_the_one_that_governs_the_scales():
    w = RNG.normal(size=(2000, DIM))
    found = leading_directions(w, funnel_score(w))
    assert abs(found[:, 0] @ DIRECTION) > 0.98
    assert (np.abs(found[:, 1:].T @ DIRECTION) < 0.2).all()
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-9)
    some = np.where(np.arange(len(w))[:, None] % 3 == 0, np.nan, funnel_score(w))
    assert abs(leading_directions(w, some)[:, 0] @ DIRECTION) > 0.97


def test_the_frame_is_that_of_the_gaussian_with_this_direction_first():
    guess = Guess(0.0, np.zeros(DIM), np.eye(DIM))
    w = np.random.default_rng(1).normal(size=(1024, DIM))
    frame = curved_frame(guess, w, funnel_score(w))
    factor = np.asarray(frame.factor, float)
    np.testing.assert_allclose(factor @ factor.T, np.eye(DIM), atol=1e-5)
    assert abs(factor[:, 0] @ DIRECTION) > 0.97
    assert abs(float(frame.log_det)) < 1e-5
