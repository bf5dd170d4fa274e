"""The training loop: reproducible results, non-finite steps, and resuming from a checkpoint."""

import jax
import numpy as np
import pytest

from civi.family import Architecture
from civi.problem import PosteriorProblem
from civi.problem.target import star
from civi.solver import CompositionalSolver, train
from civi.solver.loop import PATIENCE
from civi.update import Samples
from counting_solver import CountingSolver

KEY = jax.random.key(0)


def numbers(trained):
    """All results of a run except times."""
    history = [column for name, column in trained.history.items() if name != "seconds"]
    return [np.asarray(leaf) for leaf in jax.tree.leaves((trained.problem, trained.state.solver.params))] + history


def are_identical(left, right) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(numbers(left), numbers(right), strict=True))


def params_of(trained) -> float:
    """The number that all parameters of the counting solver are equal to."""
    (value,) = {float(value) for leaf in jax.tree.leaves(trained.problem.family) for value in np.ravel(leaf)}
    return value


@pytest.fixture(scope="module")
def in_blocks(linear_model):
    solver = CountingSolver(steps=40, output="uniform", bad=(3, 17))
    return {block: train(solver, linear_model, KEY, block=block) for block in (1, 7, 500, None)}


@pytest.mark.parametrize("block", [7, 500, None])
def test_block_length_does_not_change_a_bit(in_blocks, block):
    assert are_identical(in_blocks[block], in_blocks[1])
    assert float(in_blocks[block].state.solver.walk) == float(in_blocks[1].state.solver.walk)


def test_another_seed_changes_the_numbers(in_blocks, linear_model):
    solver = CountingSolver(steps=40, output="uniform", bad=(3, 17))
    assert not are_identical(train(solver, linear_model, jax.random.key(1)), in_blocks[1])


def test_civi_with_the_same_seed_is_identical_to_the_last_bit():
    problem = PosteriorProblem(Architecture(hidden=(4,)).init(2, KEY), star())
    solver = CompositionalSolver(steps=12, samples=Samples(outer=4, inner=3))
    runs = [train(solver, problem, KEY, block=block) for block in (5, None)]
    assert are_identical(*runs)
    assert not np.array_equal(runs[0].problem.family.mixing.weights[0], problem.family.mixing.weights[0])


def test_history_has_one_row_per_step(in_blocks):
    history = in_blocks[7].history
    np.testing.assert_array_equal(history["step"], np.arange(1, 41))
    np.testing.assert_array_equal(np.flatnonzero(history["skipped"]) + 1, [3, 17])
    assert (np.diff(history["seconds"]) > 0).all()


@pytest.fixture(scope="module")
def two_good_steps(linear_model):
    return train(CountingSolver(steps=2), linear_model, KEY)


@pytest.mark.parametrize(
    ("part", "value"), [("params", np.nan), ("params", np.inf), ("info", np.nan), ("walk", np.nan)]
)
def test_steps_that_are_not_finite_are_skipped_and_counted(part, value, linear_model, two_good_steps):
    trained = train(CountingSolver(steps=4, bad=(3, 4), bad_part=part, bad_value=value), linear_model, KEY)
    assert trained.skipped == 2
    assert trained.status == "finished"
    assert trained.message == "finished 4 steps, 2 non-finite steps were skipped"
    assert params_of(trained) == params_of(two_good_steps) == 2
    assert float(trained.state.solver.walk) == float(two_good_steps.state.solver.walk)


def test_a_run_that_only_fails_is_stopped_with_its_last_good_parameters(linear_model):
    trained = train(CountingSolver(steps=200, bad=tuple(range(8, 200))), linear_model, KEY, block=500)
    assert trained.status == "stopped"
    assert trained.message.startswith(f"stopped at step {7 + PATIENCE} of 200: {PATIENCE} steps in a row")
    assert "step 7 are kept" in trained.message
    assert len(trained.history["step"]) == 7 + PATIENCE
    assert params_of(trained) == 7


def test_failures_that_are_not_in_a_row_do_not_stop_a_run(linear_model):
    bad = tuple(t for t in range(1, 121) if t % 40)
    trained = train(CountingSolver(steps=120, bad=bad), linear_model, KEY)
    assert (trained.status, trained.skipped, params_of(trained)) == ("finished", 117, 120)


def test_a_resumed_run_is_identical_to_one_without_a_break(linear_model, in_blocks):
    solver = CountingSolver(steps=40, output="uniform", bad=(3, 17))
    checkpoints = []
    train(solver, linear_model, KEY, watch=lambda *checkpoint: checkpoints.append(checkpoint), pause_every=13)
    at_13 = next(checkpoint for checkpoint in checkpoints if int(checkpoint[0].done) == 13)
    assert are_identical(train(solver, linear_model, KEY, resume=at_13), in_blocks[1])
    assert {13, 26, 39, 40} <= {int(state.done) for state, _ in checkpoints}
