"""The control variate of a trained frame: mean 0 for any number of inner samples, and little noise where q is right."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate import log_ratios
from civi.family import Architecture
from civi.inference.recipe import fit_settings
from civi.parts import split
from civi.problem import PosteriorProblem
from civi.problem.control import FEW, score_of_mean, steadied
from civi.problem.target import CurvedFrame, Framed
from civi.problem.target.frame import AdaptiveLowRankFrame, LowRankFrame
from linear_gaussian import GaussianTarget, gaussian_target, linear_family
from montecarlo import agrees

DIM, OUTER = 4, 64


def shared_noise_scores(key, inner, own=True):
    """Outer samples of the linear family and their scores from `inner` inner samples; without `own`, those alone."""
    family, (outer_key, inner_key) = linear_family(), jax.random.split(key)
    outer = family.draw_outer(outer_key, 8)
    inner_eps = family.noise.sample(inner_key, inner)
    each = jax.vmap(gaussian_target().log_prob)
    ratios = log_ratios(family, each, outer, inner_eps, jnp.asarray(inner))
    without = ratios._replace(own_J=jnp.full_like(ratios.own_J, -jnp.inf))
    return ratios.z_J, score_of_mean(ratios if own else without, outer)


@pytest.mark.parametrize("inner", [1, 5])
def test_integration_by_parts_is_exact_for_few_inner_samples_but_not_without_the_own_one(inner):
    def residual(key, own):
        z_J, score_J = shared_noise_scores(key, inner, own)
        first, last = z_J.T
        products = score_J[:, 0] * last**2, score_J[:, 1] * last + 1, score_J[:, 0] * jnp.sin(first) + jnp.cos(first)
        return jnp.stack(products).mean(1)

    keys = jax.random.split(jax.random.key(0), 4000)
    for own in (True, False):
        values = np.asarray(jax.jit(lambda own=own: jax.lax.map(lambda key: residual(key, own), keys))())
        assert agrees(values, np.zeros(3)) == own


def curved_problem(change):
    """A family in a trained frame with L and T away from the identity by `change`; at 0, q is nearly the target."""
    rng = np.random.default_rng(0)
    factor = np.tril(0.3 * rng.normal(size=(DIM, DIM)), -1) + np.diag([1.0, 0.5, 2.0, 1.5])
    frame = CurvedFrame.of(np.zeros(DIM), factor).adaptive()
    shapes = jax.tree.map(lambda leaf: leaf + change * rng.normal(size=leaf.shape), (frame.lower, frame.curve))
    frame = eqx.tree_at(lambda frame: (frame.lower, frame.curve), frame, shapes)
    return _problem(factor @ factor.T, frame)


def low_rank_problem(change):
    """The same with a frame of two stretched directions."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, 2)))[0]
    frame = LowRankFrame(*map(jnp.asarray, (np.zeros(DIM), np.ones(DIM), basis, np.array([2.0, 0.5]))))
    factor = np.eye(DIM) + basis @ np.diag([1.0, -0.5]) @ basis.T
    return _problem(factor @ factor.T, AdaptiveLowRankFrame(frame, change * jnp.array([1.0, -1.0])))


def _problem(covariance, frame):
    target = GaussianTarget(jnp.zeros(DIM), jnp.asarray(covariance))
    family = Architecture.at_pilot(3).init(DIM, jax.random.key(1))
    return PosteriorProblem(family, Framed.at(target, frame))


def gradients(problem, count=300):
    """Gradients of -log p with respect to the frame, without and with the control variate, (count, 2, parameters)."""
    params, fixed = split(problem)

    def gradient(key, control):
        outer_key, inner_key = jax.random.split(key)
        outer, inner_eps = problem.draw_outer(outer_key, OUTER), problem.family.noise.sample(inner_key, 20)

        def value(params):
            at = eqx.combine(params, fixed)
            ratios = log_ratios(*at.on_batch(key), outer, inner_eps, jnp.asarray(20))
            return -(steadied(ratios, outer, at.target.frame) if control else ratios).log_p_J.mean()

        found = jax.grad(value)(params).target.frame
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(found)])

    keys = jax.random.split(jax.random.key(2), count)
    return np.asarray(jax.jit(lambda: jax.lax.map(lambda key: jnp.stack([gradient(key, c) for c in (0, 1)]), keys))())


@pytest.mark.parametrize("make", [curved_problem, low_rank_problem])
def test_the_gradient_of_the_frame_keeps_its_mean_also_where_q_is_wrong(make):
    plain, controlled = np.moveaxis(gradients(make(0.2)), 1, 0)
    moved = (controlled - plain).std(0) > 1e-5
    assert moved.sum() >= 2
    assert agrees((controlled - plain)[:, moved], 0.0)
    assert not agrees((controlled - 0.5 * plain)[:, moved], 0.0)


@pytest.mark.parametrize("make", [curved_problem, low_rank_problem])
def test_the_gradient_of_the_frame_has_little_noise_where_q_is_nearly_right(make):
    plain, controlled = np.moveaxis(gradients(make(0.0)), 1, 0).std(1)
    steady = plain > 1e-6
    assert np.median(controlled[steady] / plain[steady]) < 0.5


def test_the_frame_has_a_control_variate_in_many_dimensions_only():
    for dim, expected in ((FEW, False), (FEW + 1, True)):
        frame = CurvedFrame.of(np.zeros(dim), np.eye(dim))
        target = GaussianTarget(jnp.zeros(dim), jnp.eye(dim))
        family = Architecture.at_pilot(3).init(dim, jax.random.key(0))
        problem = PosteriorProblem(family, Framed.at(target, frame.adaptive()))
        assert (problem.trained_frame is not None) == expected
        assert PosteriorProblem(family, Framed.at(target, frame)).trained_frame is None
        assert (fit_settings("civi", dim).solver.objective.weigh == "ratio") == expected


def test_the_values_of_a_look_do_not_change():
    problem = curved_problem(0.2)
    outer = problem.draw_outer(jax.random.key(3), 8)
    ratios = log_ratios(*problem.on_batch(jax.random.key(0)), outer, jnp.ones((5, 3)), jnp.asarray(5))
    steady = steadied(ratios, outer, problem.target.frame)
    for name in ("fresh_J", "own_J", "log_p_J"):
        np.testing.assert_array_equal(getattr(steady, name), getattr(ratios, name))
