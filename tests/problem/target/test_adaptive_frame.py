"""Frames against dense linear algebra, and frames that are trained: what they are in training is what is kept."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.family import Architecture
from civi.parts import groups, split
from civi.problem import PosteriorProblem
from civi.problem.target import CurvedFrame, Frame, Framed, LowRankFrame, inward, log_volume, outward
from civi.problem.target.triangular import TriangularMap
from linear_gaussian import gaussian_target

DIM, RANK = 5, 2
RNG = np.random.default_rng(0)
LOCATION, SCALE, STRETCH = RNG.normal(size=DIM), np.exp(RNG.normal(size=DIM)), np.array([4.0, 0.3])
LOWER = np.tril(RNG.normal(size=(DIM, DIM)), -1) + np.diag(SCALE)
BASIS = np.linalg.qr(RNG.normal(size=(DIM, RANK)))[0]
ROTATION = np.linalg.qr(RNG.normal(size=(DIM, DIM)))[0]
W = RNG.normal(size=(7, DIM))
CHANGE = RNG.normal(size=(DIM, DIM))


def single(array):
    return jnp.asarray(array, jnp.float32)


def frame_and_matrix(kind):
    """A frame, and the matrix F of z = location + F w in double precision."""
    if kind == "triangular":
        return Frame(single(LOCATION), single(LOWER)), LOWER
    if kind == "dense":
        return CurvedFrame.of(LOCATION, LOWER @ ROTATION), LOWER @ ROTATION
    matrix = SCALE[:, None] * (np.eye(DIM) + (BASIS * (STRETCH - 1)) @ BASIS.T)
    return LowRankFrame(*map(single, (LOCATION, SCALE, BASIS, STRETCH))), matrix


@pytest.mark.parametrize("kind", ["triangular", "dense", "low rank"])
def test_a_frame_is_its_matrix(kind):
    frame, matrix = frame_and_matrix(kind)
    z = LOCATION + W @ matrix.T
    np.testing.assert_allclose(frame.outward(single(W)), z, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(frame.outward(single(W[0])), z[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(frame.inward(single(z)), W, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(frame.log_volume(single(W)), np.linalg.slogdet(matrix)[1], rtol=1e-5)
    assert not np.allclose(frame.outward(single(W)), LOCATION + W @ matrix, rtol=1e-2)


@pytest.mark.parametrize("kind", ["triangular", "dense", "low rank"])
def test_the_functions_of_a_framed_target_are_in_double_precision(kind):
    frame, matrix = frame_and_matrix(kind)
    framed = Framed(gaussian_target(), frame, jnp.zeros(()), jnp.zeros(DIM))
    z = LOCATION + W @ matrix.T
    np.testing.assert_allclose(outward(framed, single(W)), z, rtol=1e-4, atol=1e-5)
    back = inward(framed, z)
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, W, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(log_volume(framed, W), np.full(len(W), np.linalg.slogdet(matrix)[1]), rtol=1e-5)
    np.testing.assert_array_equal(inward(gaussian_target(), z), z)
    np.testing.assert_array_equal(log_volume(gaussian_target(), W), np.zeros(len(W)))


def trained(adaptive):
    """The adaptive frame after training, with arbitrary values."""
    if hasattr(adaptive, "log_change"):
        return eqx.tree_at(lambda frame: frame.log_change, adaptive, single(0.4 * CHANGE[0, :RANK]))
    return eqx.tree_at(lambda frame: (frame.lower, frame.curve), adaptive, (single(0.4 * CHANGE), curve()))


def curve():
    """A triangular map with arbitrary parameters."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda part: single(0.3 * rng.normal(size=part.shape)), TriangularMap.identity(DIM))


@pytest.mark.parametrize("kind", ["dense", "low rank"])
def test_a_trained_frame_is_kept_as_it_was_in_training(kind):
    frame, _ = frame_and_matrix(kind)
    start = frame.adaptive()
    np.testing.assert_array_equal(start.location, frame.location)
    np.testing.assert_allclose(start.outward(single(W)), frame.outward(single(W)), rtol=1e-5, atol=1e-6)
    changed = trained(start)
    settled = start.settled(changed)
    assert type(settled) is type(frame)
    z = changed.outward(single(W))
    np.testing.assert_allclose(settled.outward(single(W)), z, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(settled.inward(z), W, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(settled.log_volume(single(W)), changed.log_volume(single(W)), rtol=1e-5)
    assert not np.allclose(z, frame.outward(single(W)), atol=1e-2)


def test_a_trained_dense_frame_keeps_its_volume_and_uses_only_what_is_below_the_diagonal():
    frame, _ = frame_and_matrix("dense")
    above = eqx.tree_at(lambda f: f.lower, frame.adaptive(), single(np.triu(CHANGE)))
    np.testing.assert_allclose(above.outward(single(W)), frame.outward(single(W)), rtol=1e-5, atol=1e-6)
    settled = frame.adaptive().settled(trained(frame.adaptive()))
    np.testing.assert_allclose(np.linalg.slogdet(np.asarray(settled.factor))[1], frame.log_det, rtol=1e-4)
    change = np.linalg.solve(np.asarray(frame.factor, float), np.asarray(settled.factor, float))
    np.testing.assert_allclose(np.triu(change), np.eye(DIM), atol=1e-4)


@pytest.mark.parametrize(("kind", "array"), [("dense", "lower"), ("low rank", "log_change")])
def test_of_a_target_only_the_frames_change_is_trained(kind, array):
    frame, _ = frame_and_matrix(kind)
    framed = Framed(gaussian_target(), frame.adaptive(), jnp.zeros(()), jnp.zeros(DIM))
    problem = PosteriorProblem(Architecture(mixing="constant").init(DIM, jax.random.key(0)), framed)
    params, fixed = split(problem)
    named = groups(params).target.frame
    assert getattr(named, array) == "frame"
    assert getattr(fixed.target.frame, array) is None
    assert params.target.target.mean is None
    assert params.target.frame.frame.location is None
    assert params.target.slope is None
    settled = Framed(gaussian_target(), frame, jnp.zeros(()), jnp.zeros(DIM))
    assert split(PosteriorProblem(problem.family, settled))[0].target.frame.location is None


def test_a_framed_target_takes_over_the_trained_frame():
    frame, _ = frame_and_matrix("dense")
    framed = Framed(gaussian_target(), frame.adaptive(), jnp.ones(()), jnp.ones(DIM))
    changed = trained(framed.frame)
    kept = framed.with_trained(changed)
    np.testing.assert_allclose(kept.frame.outward(single(W)), changed.outward(single(W)), rtol=1e-4, atol=1e-4)
    assert (type(framed.template().frame), kept.log_p) == (CurvedFrame, 1)


def test_the_volume_of_a_curved_frame_is_that_of_its_jacobian():
    frame, _ = frame_and_matrix("dense")
    framed = Framed(gaussian_target(), frame.adaptive().settled(trained(frame.adaptive())), jnp.ones(()), jnp.ones(DIM))
    z, jacobians = jax.jit(lambda w: (framed.frame.outward(w), jax.vmap(jax.jacfwd(framed.frame.outward))(w)))(
        single(W)
    )
    exact = np.linalg.slogdet(np.asarray(jacobians, float))[1]
    np.testing.assert_allclose(log_volume(framed, W), exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(framed.frame.log_volume(single(W)), exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(inward(framed, np.asarray(z, float)), W, rtol=1e-4, atol=1e-4)
    assert not np.allclose(exact, framed.frame.log_det, atol=0.1)
