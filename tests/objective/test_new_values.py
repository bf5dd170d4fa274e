"""A new objective, a new estimate of the score and a new mixing, as a user would add them: one class each."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate import Scored
from civi.family import MIXINGS, Architecture, GaussianNoise
from civi.objective import PATHWISE, SCORES, PathGradient, Prepared
from civi.objective.base import stein_terms
from civi.parts import split
from civi.problem import PosteriorProblem
from civi.settings import override
from civi.solver import PathwiseSolver, train
from civi.update import FirstOrder, Samples
from linear_gaussian import gaussian_target, mean_and_covariance
from oracle import LINEAR


@dataclass(frozen=True)
class Moments:
    """The score of the Gaussian with the mean and covariance of the outer samples: exact if q is Gaussian."""

    def init(self, family, draws):
        return ()

    def estimate(self, state, family, z_J, draws):
        centred_J = z_J - z_J.mean(0)
        covariance = centred_J.T @ centred_J / (len(z_J) - 1)
        return Scored(-jnp.linalg.solve(covariance, centred_J.T).T, (), None, jnp.ones(()))


@dataclass(frozen=True)
class SquaredStein:
    """|mean_j f_j|^2 + |mean_j f_j z_j'|^2: p and q have the same Stein moments of first and second order."""

    trains_decoder = False

    def init(self, family, draws):
        return ()

    def prepare(self, player, family, log_prob_each, draws):
        return Prepared((), (), None, jnp.ones(()))

    def surrogate(self, family, log_prob_each, draws, aid):
        z_J, stein_J = stein_terms(family, log_prob_each, draws.outer)
        other_J, others_J = stein_terms(family, log_prob_each, family.draw_outer(draws.key, len(z_J)))
        first = stein_J.mean(0) @ others_J.mean(0)
        return first + (stein_J.T @ z_J * (others_J.T @ other_J)).sum() / len(z_J) ** 2


class Triangular(eqx.Module):
    """Mixing by a triangular matrix: mu(eps) = b + L eps."""

    lower: jax.Array
    bias: jax.Array

    def __call__(self, eps):
        return self.bias + jnp.tril(self.lower) @ eps


def triangular(shape, gain, key):
    return GaussianNoise(gain.size), Triangular(shape.spread * jnp.eye(gain.size), jnp.zeros(gain.size))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(SCORES, "moments", Moments)
    monkeypatch.setitem(PATHWISE, "squared-stein", SquaredStein)
    monkeypatch.setitem(MIXINGS, "triangular", triangular)


def fit(solver, family):
    problem = PosteriorProblem(family, gaussian_target())
    return train(solver, problem, jax.random.key(1)).problem.family


@pytest.mark.parametrize("settings", [["objective.score=moments"], ["objective=squared-stein"]])
def test_a_new_score_or_objective_is_chosen_by_its_name_and_trains(settings):
    start = PathwiseSolver(500, Samples(256, 2), PathGradient(), FirstOrder(learning_rate=0.03))
    family = LINEAR.init(2, jax.random.key(0))
    mean, covariance = mean_and_covariance(fit(override(start, settings), family))
    target = gaussian_target()
    np.testing.assert_allclose(mean, target.mean, atol=0.1)
    np.testing.assert_allclose(covariance, target.covariance, atol=0.2)
    assert not np.allclose(mean_and_covariance(family)[1], target.covariance, atol=0.2)


def test_a_new_mixing_is_chosen_by_its_name_and_trains():
    family = Architecture(mixing="triangular", conditional="diagonal", scale=0.5, spread=0.5).init(2, jax.random.key(0))
    assert {"lower", "bias"} <= set(vars(split(family)[0].mixing))
    solver = PathwiseSolver(500, Samples(64, 100), PathGradient(), FirstOrder(learning_rate=0.03))
    fitted, target = fit(solver, family), gaussian_target()
    lower, scale = jnp.tril(fitted.mixing.lower), jnp.exp(fitted.conditional.log_scale)
    np.testing.assert_allclose(fitted.mixing.bias, target.mean, atol=0.1)
    np.testing.assert_allclose(lower @ lower.T + jnp.diag(scale**2), target.covariance, atol=0.2)
