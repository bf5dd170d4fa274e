"""A short run of CI-VI fits the star, by a criterion that rejects the untrained family."""

import jax
import pytest

from civi.family import Architecture
from civi.inference.diagnose import neg_elbo_bounds
from civi.problem import PosteriorProblem
from civi.problem.target import star
from civi.solver import CompositionalSolver, train
from civi.update import Samples
from montecarlo import LIMIT

pytestmark = pytest.mark.optimised


def is_within_a_tenth(problem: PosteriorProblem) -> bool:
    """Whether the upper bound on KL(q || p) is significantly below 0.1."""
    bounds = neg_elbo_bounds(problem.family, problem.target, jax.random.key(2), outer=2000, inner=4000)
    return bounds.upper + LIMIT * bounds.upper_se < 0.1


def test_civi_finds_the_star_and_needs_its_steps_for_it():
    start = PosteriorProblem(Architecture(hidden=(30, 30)).init(2, jax.random.key(0)), star())
    solver = CompositionalSolver(steps=300, samples=Samples(outer=64, inner=40))
    assert is_within_a_tenth(train(solver, start, jax.random.key(1)).problem)
    assert not is_within_a_tenth(start)
