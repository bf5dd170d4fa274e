"""Mini-batch steps: the gradient is unbiased, and a mini-batch is kept as long as its chunk."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.estimate.reverse import Hmc
from civi.family import Architecture
from civi.inference.settings import Settings
from civi.objective import PathGradient
from civi.parts import constant, split
from civi.problem import PosteriorProblem, ProblemSettings
from civi.problem.target import LogisticRegression, two_modal
from civi.solver import CompositionalSolver, PathwiseSolver, train
from civi.tracker import Extrapolated, NoTracker, Pool
from civi.update import FirstOrder, Samples
from linear_gaussian import linear_family
from montecarlo import agrees

ROWS, BATCH, RUNS, STEPS = 30, 3, 400, 10
SGD = FirstOrder("sgd", learning_rate=1.0, decay="constant")
SLOW = FirstOrder("sgd", learning_rate=1e-5, decay="constant")
KEY = jax.random.key(0)


class Unweighted(LogisticRegression):
    """Deliberately wrong: a mini-batch is not weighted by N/B."""

    def batch(self, key, count):
        batch = super().batch(key, count)
        return LogisticRegression(batch.x, batch.y)


class Restless(PosteriorProblem):
    """Deliberately wrong if `restless` is 1: a new mini-batch at every step, although y_j averages over past ones."""

    restless: jax.Array = constant(default=0)

    def on_batch(self, key, t=None, nu=None):
        return super().on_batch(jax.random.fold_in(key, (self.restless * t).astype(int)), t, nu)


def regression(kind=LogisticRegression):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, 2)), rng.integers(2, size=ROWS)
    return kind(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))


def change(solver, problem, key, **other_keys):
    """The gradient: the change in one step with learning rate 1. `other_keys` replace keys of the state."""
    state = solver.init(problem, key)._replace(**other_keys)
    new, _ = solver.step(split(problem)[1], state, jnp.asarray(1), key)
    return jax.flatten_util.ravel_pytree(state.params)[0] - jax.flatten_util.ravel_pytree(new.params)[0]


@pytest.fixture(scope="module")
def gradients():
    """Gradients on many mini-batches, and on all rows with otherwise the same noise."""
    samples = Samples(outer=8, inner=4)
    civi = CompositionalSolver(samples=samples, tracker=NoTracker(), update=SGD)
    uivi = PathwiseSolver(samples=samples, objective=PathGradient(Hmc(1, 1, 1)), update=SGD)
    whole, batched = (PosteriorProblem(linear_family(), regression(), batch) for batch in (None, BATCH))
    unweighted = PosteriorProblem(linear_family(), regression(Unweighted), BATCH)

    def one(key):
        return {
            "civi, all rows": change(civi, whole, KEY, chunk_key=key),
            "civi": change(civi, batched, KEY, chunk_key=key),
            "civi, unweighted": change(civi, unweighted, KEY, chunk_key=key),
            "uivi, all rows": change(uivi, whole, key),
            "uivi": change(uivi, batched, key),
        }

    found = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(1), RUNS))
    return {name: np.asarray(values, np.float64) for name, values in found.items()}


@pytest.mark.parametrize("name", ["civi", "uivi"])
def test_the_gradient_of_batches_is_that_of_all_rows_on_average(gradients, name):
    apart = gradients[name] - gradients[f"{name}, all rows"]
    assert agrees(apart, 0.0)
    assert len(np.unique(apart[:, 0])) > 0.9 * RUNS


def test_the_gradient_of_batches_that_count_as_all_rows_is_not(gradients):
    assert not agrees(gradients["civi, unweighted"] - gradients["civi, all rows"], 0.0)


def test_the_key_of_the_data_matters_only_with_batches(gradients):
    assert len(np.unique(gradients["civi, all rows"], axis=0)) == 1
    assert len(np.unique(gradients["civi"], axis=0)) > 0.9 * RUNS


@pytest.fixture(scope="module")
def weights():
    """Mean and sd of the weights k at every step, with mini-batches that last as long as their chunk or not."""
    samples, pool = Samples(outer=32, inner=400), Pool(switch_every=5)
    solver = CompositionalSolver(samples=samples, pool=pool, tracker=Extrapolated(0.1), update=SLOW)

    def run(restless):
        problem = Restless(linear_family(), regression(), BATCH, restless)

        def step(state, t):
            new, info = solver.step(split(problem)[1], state, t, jax.random.fold_in(KEY, t))
            return new, jnp.stack([info.weight_mean, info.weight_sd])

        return jax.lax.scan(step, solver.init(problem, KEY), jnp.arange(1, STEPS + 1))[1].T

    return np.asarray(jax.jit(lambda which: jax.lax.map(run, which))(jnp.arange(2)))


def test_weights_stay_near_1_where_a_batch_is_kept_with_its_chunk(weights):
    (mean, sd), (mean_of_restless, sd_of_restless) = weights
    assert np.abs(mean - 1).max() < 0.2
    assert np.median(sd) < 0.3
    assert np.abs(mean_of_restless - 1).max() > 0.5
    assert np.median(sd_of_restless) > 0.6


IN_PARTS = CompositionalSolver(samples=Samples(outer=8, inner=4), pool=Pool(renew=0.5))
KEPT = r"problem.batch keeps a batch of data with its chunk of outer samples: set pool.renew to 1"


def test_a_batch_with_a_chunk_that_is_renewed_in_parts_is_refused():
    with pytest.raises(SettingError, match=KEPT):
        train(IN_PARTS, PosteriorProblem(linear_family(), regression(), BATCH), KEY)
    whole = PosteriorProblem(linear_family(), regression())
    assert int(jax.eval_shape(IN_PARTS.init, whole, KEY).pool.outer.eps.shape[0]) == 8


def test_it_is_refused_in_settings_too():
    whole, batch = CompositionalSolver(samples=Samples(outer=8)), ProblemSettings(BATCH)
    with pytest.raises(SettingError, match=KEPT):
        Settings(Architecture(), IN_PARTS, batch)
    assert Settings(Architecture(), whole, batch).problem.batch == BATCH
    assert Settings(Architecture(), IN_PARTS).solver.pool.renew == 0.5


@pytest.mark.parametrize(
    ("target", "batch", "message"),
    [
        (two_modal(), BATCH, r"problem.batch needs a target with rows of data"),
        (regression(), ROWS + 1, r"problem.batch \(31\) is larger than the data \(30 rows\)"),
        (regression(), 0, r"problem.batch must be at least 1, or none for all rows, not 0"),
    ],
    ids=["no rows", "too few rows", "nothing"],
)
def test_a_batch_that_the_data_cannot_give_is_refused(target, batch, message):
    with pytest.raises(SettingError, match=message):
        PosteriorProblem(linear_family(), target, batch)


def test_a_batch_of_all_rows_is_possible():
    assert PosteriorProblem(linear_family(), regression(), ROWS).batch == ROWS


def test_a_batch_of_nothing_is_refused_in_settings_too():
    with pytest.raises(SettingError, match=r"problem.batch must be at least 1, or none, not -1"):
        ProblemSettings(batch=-1)
