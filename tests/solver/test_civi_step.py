"""Black-box tests of engine steps with growing sample sizes and with sketches."""

import jax
import numpy as np

from civi.estimate import Sketch
from civi.solver import CompositionalSolver, train
from civi.tracker import Bank, NoTracker, Pool
from civi.update import FirstOrder, Samples

KEY = jax.random.key(0)
SGD = FirstOrder("sgd", 1e-2, decay="constant")


def test_growing_samples_are_used_as_they_grow(linear_model):
    growing = Samples(outer=2, inner=3, growth=0.8)
    pool = Pool(chunk=8, draw="uniform")
    solver = CompositionalSolver(steps=4, samples=growing, pool=pool, tracker=Bank(6), update=SGD)
    tracker = train(solver, linear_model, KEY).state.solver.tracker
    np.testing.assert_array_equal(tracker.kept_B, [*np.ceil(3 * np.arange(1, 5) ** 0.8), 0, 0])


def test_no_step_is_lost_to_a_dense_sketch_of_samples_that_were_not_drawn(linear_model):
    solver = CompositionalSolver(
        steps=30,
        samples=Samples(outer=3, inner=5),
        pool=Pool(chunk=40, draw="uniform"),
        sketch=Sketch("dense", 2),
        tracker=NoTracker(),
        update=SGD,
    )
    trained = train(solver, linear_model, KEY)
    assert trained.skipped == 0
    np.testing.assert_array_equal(trained.history["skipped"], 0)
