"""Which iterate a run returns: the average of the second half, or one drawn uniformly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.problem import PosteriorProblem
from civi.solver import train
from counting_solver import CountingSolver

RUNS, STEPS = 400, 5


def steps_returned(linear_model, output):
    """The step whose parameters are returned, for each of RUNS keys in one program."""
    arrays, rest = eqx.partition(linear_model.family, eqx.is_array)
    stacked = eqx.combine(jax.tree.map(lambda leaf: jnp.stack([leaf] * RUNS), arrays), rest)
    keys = jax.random.split(jax.random.key(0), RUNS)
    trained = train(CountingSolver(STEPS, output), PosteriorProblem(stacked, linear_model.target), keys)
    return np.asarray(trained.problem.family.mixing.biases[0])[:, 0]


def is_uniform(steps) -> bool:
    return stats.chisquare(np.bincount(steps.astype(int), minlength=STEPS + 1)[1:]).pvalue > 1e-4


def test_uniform_returns_every_iterate_equally_often(linear_model):
    drawn = steps_returned(linear_model, "uniform")
    assert is_uniform(drawn)
    assert not is_uniform(np.where(drawn == 1, STEPS, drawn))


@pytest.mark.parametrize(("steps", "expected"), [(10, np.mean([6, 7, 8, 9, 10])), (7, np.mean([4, 5, 6, 7]))])
def test_average_is_over_the_second_half(linear_model, steps, expected):
    trained = train(CountingSolver(steps, "average"), linear_model, jax.random.key(0))
    for leaf in jax.tree.leaves(trained.problem.family):
        np.testing.assert_allclose(leaf, expected, rtol=1e-6)
