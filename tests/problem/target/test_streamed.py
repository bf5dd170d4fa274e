"""A streamed regression agrees with the same regression in memory, and a killed run continues to the bit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import streams
from civi.family import Architecture
from civi.inference.pilot import Laplace
from civi.inference.posterior import SemiImplicitPosterior
from civi.problem import ProblemSettings, make_problem
from civi.problem.target import LogisticRegression
from civi.problem.target.feeding import feeding, log_offset
from civi.problem.target.streamed import WeightedRows
from civi.solver import CompositionalSolver, train
from civi.tracker import NoTracker
from civi.update import Samples

GROUP, BATCH, KEY = 50, 10, jax.random.key(7)
SOLVER = CompositionalSolver(steps=40, samples=Samples(outer=4, inner=3), tracker=NoTracker())


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return streams.write(tmp_path_factory.mktemp("table") / "table.parquet", streams.frame(), GROUP)


@pytest.fixture(scope="module")
def in_memory():
    frame = streams.frame()
    x = frame[["age", "dose"]].to_numpy(np.float64)
    x = np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0, ddof=1)])
    return LogisticRegression(jnp.asarray(x, jnp.float32), jnp.asarray(frame.y == "yes", jnp.float32))


@pytest.fixture(scope="module")
def pilots(path, in_memory):
    """The pilot on a sample of a seventh of the rows with full passes, and the pilot in memory."""
    return Laplace().look(streams.regression(path, sample=100)), Laplace().look(in_memory)


def test_one_pass_gives_the_derivatives_on_all_rows(path, in_memory):
    z = jnp.array([0.3, -1.0, 0.5])
    found = streams.regression(path).derivatives(np.asarray(z))
    np.testing.assert_allclose(found.log_p, in_memory.log_prob(z), rtol=1e-5)
    np.testing.assert_allclose(found.slope, jax.grad(in_memory.log_prob)(z), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.curvature, jax.hessian(in_memory.log_prob)(z), rtol=1e-4, atol=1e-3)


def test_full_passes_correct_the_pilot_of_a_sample(pilots, path):
    streamed, exact = pilots
    scale = np.sqrt(np.diagonal(exact.frame.factor @ exact.frame.factor.T))
    on_sample = Laplace().look(streams.regression(path, sample=100).sample)
    assert np.abs((streamed.frame.location - exact.frame.location) / scale).max() < 0.05
    assert np.abs((on_sample.frame.location - exact.frame.location) / scale).max() > 0.5
    np.testing.assert_allclose(streamed.frame.factor, exact.frame.factor, rtol=0.01, atol=1e-3)
    assert log_offset(streamed) == pytest.approx(float(exact.log_p), abs=1e-3)


def test_log_p_is_relative_to_the_location_and_exact_there_to_first_order(pilots):
    streamed, exact = pilots
    w_N = 0.1 * jax.random.normal(jax.random.key(0), (50, 3))
    ours, theirs = (np.asarray(jax.vmap(one.log_prob)(w_N)) for one in pilots)
    quadratic = 0.5 * np.square(w_N).sum(1)
    assert np.abs(ours + log_offset(streamed) - theirs).max() < 0.3 * quadratic.max()
    zero = jnp.zeros(3)
    np.testing.assert_allclose(jax.grad(streamed.log_prob)(zero), jax.grad(exact.log_prob)(zero), atol=0.02)


def test_neg_elbo_is_that_of_all_rows(pilots):
    """The same draws of q; the sample differs in the second order only, here by less than a tenth of a nat."""
    family = Architecture(hidden=(), spread=0.1, scale=1.0).init(3, KEY)
    found = [SemiImplicitPosterior(family=family, target=one).bounds(KEY, 200, 10).upper for one in pilots]
    assert found[0] == pytest.approx(found[1], abs=0.3)
    assert found[0] > 300


def test_batches_of_all_windows_average_to_the_posterior(pilots, in_memory):
    """With a control variate and without it; the epoch has one window more than there are groups."""
    streamed, exact = pilots
    target, z = streamed.target, exact.frame.location + exact.frame.factor @ jnp.array([1.0, -1.0, 0.5])
    slope = jax.jit(lambda target, keys: jax.lax.map(lambda key: jax.grad(target.batch(key, 20).log_prob)(z), keys))
    found = []
    for seed in range(8):
        with target.feed(seed, 20) as feed:
            window = feed.at(0)[0]
            filled = replace(target, window=window)
            found.append(slope(filled, jax.random.split(jax.random.key(seed), 500)))
    found = np.concatenate(found)
    error = found.std(0) / np.sqrt(len(found))
    expected = np.asarray(jax.grad(in_memory.log_prob)(z))
    assert (np.abs(found.mean(0) - expected) < 4.5 * error).all()
    assert (np.abs(found.mean(0) / 2 - expected) > 4.5 * error).any()


def test_differences_keep_their_precision_where_the_sum_loses_it():
    """100 million rows: in single precision, log p itself resolves 8 nats, and the difference less than 0.01."""
    rows = np.column_stack([np.ones(4), [-2, -1, 1, 2], [0, 1, 0, 1]]).astype(np.float32)
    origin, step, weight = np.array([1.0, 0.5]), np.array([2e-5, -1e-5]), 2.5e7
    target = WeightedRows(jnp.asarray(rows), jnp.full(4, weight), jnp.asarray(origin, jnp.float32))
    z = np.asarray(origin, np.float32) + np.asarray(step, np.float32)
    moved = z.astype(np.float64) - origin

    def exact(z: np.ndarray) -> float:
        logit = rows[:, :-1].astype(np.float64) @ z
        return weight * (rows[:, -1] * logit - np.logaddexp(0, logit)).sum() - 0.5 * z @ z / 100

    assert float(target.log_prob(jnp.asarray(z))) == pytest.approx(exact(origin + moved) - exact(origin), rel=1e-4)


@pytest.fixture(scope="module")
def trained(pilots):
    """A run of 40 steps, and the state after its first 25."""
    problem = make_problem(Architecture(hidden=()), pilots[0], jax.random.key(0), ProblemSettings(batch=BATCH))
    with feeding(problem, 0, BATCH) as feed:
        stopped: list = []

        def watch(state, history):
            stopped.append((state, history))

        whole = train(SOLVER, feed(problem, 0)[0], KEY, feed=feed, watch=watch, block=5)
    return problem, whole, stopped[4]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_was_killed_continues_with_the_same_batches(trained, seed):
    problem, whole, stopped = trained
    with feeding(problem, seed, BATCH) as feed:
        resumed = train(SOLVER, feed(problem, 0)[0], KEY, feed=feed, resume=stopped, block=11)
    same = [
        (a == b).all() for a, b in zip(*map(jax.tree.leaves, (whole.state.output, resumed.state.output)), strict=True)
    ]
    assert int(resumed.state.done) == SOLVER.steps
    assert all(same) == (seed == 0)
    assert whole.history["neg_elbo"].tolist()[:25] == resumed.history["neg_elbo"].tolist()[:25]
