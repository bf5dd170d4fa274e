"""Steps that see a batch of the rows: the gradient has no bias, and a batch is kept as long as its chunk."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from civi.errors import SettingError
from civi.problem.target import LogisticRegression, two_modal
from civi.solver import Civi, Model, train
from civi.solver.base import split
from civi.solver.uivi import Uivi
from civi.tracker import Extrapolated, NoTracker, Pool
from civi.update import FirstOrder, Samples
from linear_gaussian import linear_family
from montecarlo import agrees

ROWS, BATCH, RUNS, STEPS = 30, 3, 400, 10
SGD = FirstOrder("sgd", learning_rate=1.0, decay="constant")
SLOW = FirstOrder("sgd", learning_rate=1e-5, decay="constant")
KEY = jax.random.key(0)


class Unweighted(LogisticRegression):
    """Wrong: a batch counts as if it were all there is."""

    def batch(self, key, count):
        batch = super().batch(key, count)
        return LogisticRegression(batch.x, batch.y)


@dataclass(frozen=True)
class Restless(Civi):
    """Wrong where `restless` is 1: another batch at every step, while y_j remembers the ones before. Civi where 0."""

    restless: Any = 0

    def _batch_key(self, key, pool):
        return super()._batch_key(jax.random.fold_in(key, self.restless * pool.steps_kept), pool)


def regression(kind=LogisticRegression):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, 2)), rng.integers(2, size=ROWS)
    return kind(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))


def change(solver, target, key, **other_keys):
    """What a step of rate 1 subtracts from theta, for a run with this key and, where given, another of the data."""
    model = Model(linear_family(), target)
    state = solver.init(model, key)._replace(**other_keys)
    new, _ = solver.step(split(model)[1], state, jnp.asarray(1), key)
    return jax.flatten_util.ravel_pytree(state.params)[0] - jax.flatten_util.ravel_pytree(new.params)[0]


@pytest.fixture(scope="module")
def gradients():
    """Gradients on many batches, and with all rows for the same noise otherwise."""
    samples = Samples(outer=8, inner=4)
    civi = Civi(samples=samples, tracker=NoTracker(), update=SGD)
    uivi = Uivi(samples=samples, burn_in=1, kept=1, leapfrog=1, update=SGD)
    civi_batch, uivi_batch = (replace(solver, samples=replace(samples, batch=BATCH)) for solver in (civi, uivi))
    whole = regression()

    def one(key):
        return {
            "civi, all rows": change(civi, whole, KEY, data_key=key),
            "civi": change(civi_batch, whole, KEY, data_key=key),
            "civi, unweighted": change(civi_batch, regression(Unweighted), KEY, data_key=key),
            "uivi, all rows": change(uivi, whole, key),
            "uivi": change(uivi_batch, whole, key),
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
    """Mean and sd of the weights k at every step, where a batch is kept with its chunk and where it is not."""
    model = Model(linear_family(), regression())
    samples, pool = Samples(outer=32, inner=400, batch=BATCH), Pool(switch_every=5)

    def run(restless):
        solver = Restless(samples=samples, pool=pool, tracker=Extrapolated(0.1), update=SLOW, restless=restless)

        def step(state, t):
            new, info = solver.step(split(model)[1], state, t, jax.random.fold_in(KEY, t))
            return new, jnp.stack([info.weight_mean, info.weight_sd])

        return jax.lax.scan(step, solver.init(model, KEY), jnp.arange(1, STEPS + 1))[1].T

    return np.asarray(jax.jit(lambda which: jax.lax.map(run, which))(jnp.arange(2)))


def test_weights_stay_near_1_where_a_batch_is_kept_with_its_chunk(weights):
    (mean, sd), (mean_of_restless, sd_of_restless) = weights
    assert np.abs(mean - 1).max() < 0.2
    assert np.median(sd) < 0.3
    assert np.abs(mean_of_restless - 1).max() > 0.5
    assert np.median(sd_of_restless) > 0.6


def test_a_batch_with_a_chunk_that_is_renewed_in_parts_is_refused():
    samples = Samples(outer=8, batch=BATCH)
    with pytest.raises(SettingError, match=r"samples.batch keeps a batch .* set pool.renew to 1"):
        Civi(samples=samples, pool=Pool(renew=0.5))
    assert Civi(samples=samples).samples.batch == BATCH
    assert Civi(samples=Samples(outer=8), pool=Pool(renew=0.5)).pool.renew == 0.5


@pytest.mark.parametrize("solver", [Civi, Uivi])
def test_a_batch_needs_rows(solver):
    model = Model(linear_family(), two_modal())
    with pytest.raises(SettingError, match=r"samples.batch needs a target with rows of data"):
        train(solver(samples=Samples(outer=8, inner=4, batch=BATCH)), model, KEY)


def test_a_batch_of_more_rows_than_there_are_is_refused():
    model = Model(linear_family(), regression())
    with pytest.raises(SettingError, match=r"samples.batch \(31\) is larger than the data \(30 rows\)"):
        eqx.filter_eval_shape(Civi(samples=Samples(outer=8, inner=4, batch=ROWS + 1)).init, model, KEY)


def test_a_negative_batch_is_refused():
    with pytest.raises(SettingError, match=r"samples.batch must be at least 0 \(0: all rows\), not -1"):
        Samples(batch=-1)
