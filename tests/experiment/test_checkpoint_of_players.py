"""A run with a second player, or with Langevin noise, that is resumed from a checkpoint ends with the same bits."""

import jax
import numpy as np
import pytest

from civi.experiment.checkpoint import Checkpoints
from civi.experiment.recipes import settings_for
from civi.problem import make_problem
from civi.problem.target import star
from civi.solver import train
from civi.solver.loop import start

NETWORK = ["objective.score.hidden=3", "objective.score.training.draws=5"]


@pytest.mark.parametrize(
    ("name", "own"), [("divi", NETWORK), ("pvi", ["family.particles=5", "update.temperature=0.1"])]
)
def test_a_resumed_run_has_the_same_bits(name, own, tmp_path):
    settings = settings_for("star", name, "default")
    settings = settings.changed(6, ["samples.outer=4", "samples.inner=5", "family.hidden=3", *own])
    problem = make_problem(settings.family, star(), jax.random.key(0))
    solver, key, checkpoints = settings.solver, jax.random.key(1), Checkpoints(tmp_path, 1)
    states = {}

    def watch(state, history):
        states[int(state.done)] = (state, history)

    whole = train(solver, problem, key, watch=watch, block=1)
    checkpoints.save(*states[3])
    restored, history, damaged = checkpoints.restore(start(solver, problem, key))
    checkpoints.close()
    assert not damaged
    resumed = train(solver, problem, key, resume=(restored, history), block=3)
    for before, after in zip(*(jax.tree.leaves(run.state.solver) for run in (whole, resumed)), strict=True):
        if not jax.dtypes.issubdtype(before.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(before, after)
    assert not np.array_equal(*(jax.tree.leaves(states[step][0].solver.params)[0] for step in (3, 6)))
