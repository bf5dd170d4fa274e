"""UIVI's gradient is unbiased on the linear-Gaussian oracle, and the reverse chains sample q(eps | z)."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate.reverse import Hmc, entropy_score, reverse_conditional
from civi.objective import PathGradient
from civi.parts import split
from civi.solver import PathwiseSolver
from civi.update import FirstOrder, Samples
from linear_gaussian import exact_gradient, mean_and_covariance
from montecarlo import agrees

SGD = FirstOrder("sgd", learning_rate=1.0, decay="constant")
CHAIN = {"burn_in": 5, "kept": 5, "leapfrog": 5}


def flat(tree):
    return jax.flatten_util.ravel_pytree(tree)[0]


@pytest.fixture(scope="module")
def gradients(linear_model):
    """A function of the step size: 150 gradients of 48 outer samples each, from chains that forget their start."""
    solver = PathwiseSolver(
        samples=Samples(outer=48, inner=1), objective=PathGradient(Hmc(burn_in=20, leapfrog=10)), update=SGD
    )
    start, fixed = solver.init(linear_model, jax.random.key(0)), split(linear_model)[1]

    def one(step_size, key):
        state = start._replace(player=jnp.log(step_size))
        new, info = solver.step(fixed, state, jnp.asarray(1), key)
        return flat(state.params) - flat(new.params), info.acceptance

    keys = jax.random.split(jax.random.key(1), 150)
    program = jax.jit(jax.vmap(one, in_axes=(None, 0)))
    return lambda step_size: program(jnp.asarray(step_size), keys)


def test_gradient_is_unbiased(gradients, linear_model):
    values, acceptance = gradients(0.2)
    assert acceptance.mean() > 0.9
    assert agrees(values, flat(exact_gradient(linear_model)))


def test_gradient_is_biased_where_the_chain_stays_at_its_start(gradients, linear_model):
    """The eps that made z is a draw of q(eps | z), but not independent of dz/dtheta, so the chain must move away."""
    values, _ = gradients(1e-3)
    assert not agrees(values, flat(exact_gradient(linear_model)))


@pytest.fixture(scope="module")
def pushed(linear_model):
    outer = linear_model.family.draw_outer(jax.random.key(2), 2000)
    return linear_model.family, outer, linear_model.family.push(outer)[0]


def score_error(family, z_J, start_J, key, **chain):
    """The estimate of grad_z log q(z) minus the exact value for the Gaussian q."""
    draws = reverse_conditional(family, z_J, start_J, jnp.asarray(0.35), key, **chain)
    mean, covariance = mean_and_covariance(family)
    exact_J = -jnp.linalg.solve(covariance, (z_J - mean).T).T
    return np.asarray(entropy_score(family, z_J, draws.eps_MJ) - exact_J)


def test_score_of_the_entropy(pushed):
    """The error is also weighted by z, to detect errors that cancel on average."""
    family, outer, z_J = pushed
    error = score_error(family, z_J, outer.eps, jax.random.key(3), **CHAIN)
    assert agrees(np.concatenate([error, error * np.asarray(z_J)], axis=1), 0.0)


def test_a_chain_from_the_prior_without_burn_in_is_biased(pushed):
    family, _, z_J = pushed
    start = family.noise.sample(jax.random.key(4), len(z_J))
    chain = {"burn_in": 0, "kept": 1, "leapfrog": 1}
    error = score_error(family, z_J, start, jax.random.key(5), **chain)
    assert not agrees(np.concatenate([error, error * np.asarray(z_J)], axis=1), 0.0)


def test_step_size_moves_towards_the_wanted_acceptance(linear_model):
    solver = PathwiseSolver(samples=Samples(outer=32, inner=1), objective=PathGradient(Hmc(adaptation=0.5)))
    fixed = split(linear_model)[1]
    state = solver.init(linear_model, jax.random.key(0))._replace(player=jnp.log(3.0))

    def step(state, key):
        new, info = solver.step(fixed, state, jnp.asarray(1), key)
        return new._replace(params=state.params), info.acceptance

    _, acceptance = jax.lax.scan(step, state, jax.random.split(jax.random.key(6), 150))
    assert acceptance[0] < 0.5
    assert abs(float(acceptance[-50:].mean()) - solver.objective.score.acceptance) < 0.05
