"""The new objective, estimate of the score and mixing that CONTRIBUTING.md shows: one class each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.family import MIXINGS, Architecture
from civi.objective import PATHWISE, SCORES, PathGradient
from civi.parts import split
from civi.problem import PosteriorProblem
from civi.settings import override
from civi.solver import PathwiseSolver, train
from civi.update import FirstOrder, Samples
from doc_pages import ROOT, blocks
from linear_gaussian import gaussian_target, mean_and_covariance
from oracle import LINEAR


def example(name):
    """What the block of CONTRIBUTING.md for the file `name` defines."""
    (code,) = [block.code for block in blocks(ROOT / "CONTRIBUTING.md") if block.code.startswith(f"# src/civi/{name}")]
    defined = {"__name__": name}
    exec(compile(code, name, "exec"), defined)
    return defined


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(SCORES, "moments", example("estimate/moments.py")["Moments"])
    monkeypatch.setitem(PATHWISE, "squared-stein", example("objective/squared_stein.py")["SquaredStein"])
    monkeypatch.setitem(MIXINGS, "triangular", example("family/triangular.py")["triangular"])


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
