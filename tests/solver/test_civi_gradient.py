"""The gradient that Civi follows against the exact gradient of the linear-Gaussian case."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from civi.estimate import Sketch
from civi.solver import Civi
from civi.solver.base import split
from civi.tracker import Bank, Extrapolated, NoTracker, Pool
from civi.update import FirstOrder, Samples
from linear_gaussian import exact_gradient
from montecarlo import agrees

RATE, RUNS, OUTER = 1e-4, 40, 400
SGD = FirstOrder("sgd", RATE, decay="constant")


def as_rows(params, count=None):
    return np.concatenate([leaf.reshape(count or 1, -1) for leaf in jax.tree.leaves(params)], axis=1).astype(np.float64)


def gradients(linear_model, steps, inner, **settings):
    """The last step's change over minus the learning rate, for RUNS independent runs of a few steps."""
    solver = Civi(steps=steps, samples=Samples(outer=OUTER, inner=inner), update=SGD, **settings)
    fixed = split(linear_model)[1]

    def run(key):
        def step(state, t):
            new, _ = solver.step(fixed, state, t, jax.random.fold_in(key, t))
            return new, jax.tree.map(lambda old, new: (old - new) / RATE, state.params, new.params)

        followed = jax.lax.scan(step, solver.init(linear_model, key), jnp.arange(1, steps + 1))[1]
        return jax.tree.map(lambda rows: rows[-1], followed)

    all_runs = eqx.filter_jit(lambda keys: jax.lax.map(run, keys))
    return as_rows(all_runs(jax.random.split(jax.random.key(0), RUNS)), RUNS)


@pytest.fixture(scope="module")
def exact(linear_model):
    return as_rows(exact_gradient(linear_model))[0]


EXTRAPOLATED = {"steps": 20, "inner": 200, "tracker": Extrapolated(0.2), "pool": Pool(switch_every=1000)}
BANK = {"steps": 21, "inner": 50, "tracker": Bank(20)}
FRESH = {"steps": 1, "inner": 2000, "tracker": NoTracker()}
UNBIASED = {
    "fresh": FRESH,
    "fresh and sketched": FRESH | {"pool": Pool(chunk=1000, draw="uniform"), "sketch": Sketch("sparse", 100)},
    "bank": BANK,
    "bank and ratio": BANK | {"weigh": "ratio"},
    "extrapolated": EXTRAPOLATED,
    "extrapolated and ratio": EXTRAPOLATED | {"weigh": "ratio"},
}
BIASED = {
    "two fresh samples": FRESH | {"inner": 2, "inner_mean": "plain"},
    "as many as the bank, but fresh only": FRESH | {"inner": 50},
}


@pytest.mark.parametrize("name", UNBIASED)
def test_gradient_is_the_exact_one_within_its_noise(name, linear_model, exact):
    assert agrees(gradients(linear_model, **UNBIASED[name]), exact)


@pytest.mark.parametrize("name", BIASED)
def test_gradient_from_few_inner_samples_is_rejected(name, linear_model, exact):
    assert not agrees(gradients(linear_model, **BIASED[name]), exact)
