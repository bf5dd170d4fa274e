"""A problem with its trained arrays in one vector is the same problem."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from civi.family import Architecture
from civi.parts import groups, split
from civi.problem import PosteriorProblem
from civi.problem.flat import FlatProblem
from civi.problem.target import CurvedFrame, Framed
from linear_gaussian import gaussian_target

OUTER, INNER = 20, 15


def neg_elbo(params, fixed, key):
    """E_j[log mean_k q(w_j | eps_k) - log p(w_j)] of either kind of problem."""
    problem = eqx.combine(params, fixed)
    outer_key, inner_key, batch_key = jax.random.split(key, 3)
    family, log_prob_each = problem.on_batch(batch_key)
    w_J, _ = family.push(problem.draw_outer(outer_key, OUTER))
    pairs_JK = family.log_prob_pairs(family.mix(family.noise.sample(inner_key, INNER)), w_J)
    return (logsumexp(pairs_JK, axis=1) - jnp.log(INNER) - log_prob_each(w_J)).mean()


@pytest.fixture(scope="module")
def problem():
    frame = CurvedFrame.of(np.array([0.3, -0.2]), np.array([[0.9, 0.0], [0.4, 1.2]])).adaptive()
    framed = Framed(gaussian_target(), frame, jnp.zeros(()), jnp.zeros(2))
    return PosteriorProblem(Architecture.at_pilot(noise_dim=3).init(2, jax.random.key(0)), framed)


def test_value_and_gradient_are_those_of_the_problem(problem):
    flat, key = FlatProblem.of(problem), jax.random.key(1)
    both = eqx.filter_jit(lambda *args: jax.value_and_grad(neg_elbo)(*args))
    value, gradient = both(*split(problem), key)
    flat_value, flat_gradient = both(*split(flat), key)
    leaves = [leaf.reshape(-1) for leaf in jax.tree.leaves(gradient)]
    np.testing.assert_allclose(flat_value, value, rtol=1e-6)
    np.testing.assert_allclose(flat_gradient.theta, np.concatenate(leaves), rtol=1e-5, atol=1e-6)
    assert flat.theta.shape == (sum(leaf.size for leaf in leaves),)
    assert np.abs(gradient.target.frame.lower[1, 0]) > 0, "the frame must be trained too"
    moved = eqx.tree_at(lambda p: p.theta, flat, flat.theta + 0.1)
    assert abs(both(*split(moved), key)[0] - value) > 1e-3


def test_the_vector_gives_the_problem_back(problem):
    flat = FlatProblem.of(problem)
    assert all(map(jnp.array_equal, jax.tree.leaves(flat.problem), jax.tree.leaves(problem)))
    assert jax.tree.structure(flat.problem) == jax.tree.structure(problem)
    params, fixed = split(flat)
    assert (jax.tree.leaves(groups(params)), fixed.theta) == (["all"], None)
    assert flat.has_batches == problem.has_batches
