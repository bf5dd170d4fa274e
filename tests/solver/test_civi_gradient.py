"""The engine's gradient against the exact gradient of the linear-Gaussian case."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from civi.estimate import Sketch
from civi.parts import split
from civi.solver import CompositionalSolver, LogTrick
from civi.tracker import Bank, Extrapolated, NoTracker, Pool
from civi.update import FirstOrder, Samples
from linear_gaussian import BIAS, LOG_SCALE, WEIGHT, exact_gradient
from montecarlo import agrees

pytestmark = pytest.mark.optimised

RATE, RUNS, OUTER = 1e-4, 30, 400
SGD = FirstOrder("sgd", RATE, decay="constant")
RATIO = LogTrick(weigh="ratio")
FAST = {"xla_cpu_use_fusion_emitters": True}  # conftest.py turns it off, but here running takes longer than compiling


def civi(inner, **settings):
    return CompositionalSolver(samples=Samples(outer=OUTER, inner=inner), update=SGD, **settings)


EXTRAPOLATED = {"inner": 50, "tracker": Extrapolated(0.1), "pool": Pool(switch_every=None)}
TRACKED = {
    "bank": civi(50, tracker=Bank(20)),
    "bank and ratio": civi(50, tracker=Bank(20), objective=RATIO),
    "extrapolated": civi(**EXTRAPOLATED),
    "extrapolated and ratio": civi(**EXTRAPOLATED, objective=RATIO),
    "as few, but fresh only": civi(50, tracker=NoTracker()),
}
FRESH = {
    "many": civi(2000, tracker=NoTracker()),
    "many and ratio": civi(2000, tracker=NoTracker(), objective=RATIO),
    "many and sketched": civi(2000, tracker=NoTracker(), pool=Pool(draw="uniform"), sketch=Sketch("sparse", 100)),
    "two, plain": civi(2, tracker=NoTracker(), objective=LogTrick("plain")),
    "two, safe": civi(2, tracker=NoTracker(), objective=LogTrick("safe")),
}


def as_rows(params, count):
    return np.concatenate([leaf.reshape(count, -1) for leaf in jax.tree.leaves(params)], axis=1).astype(np.float64)


class Followed(NamedTuple):
    """Per run: the last step's gradient (its change divided by minus the learning rate) and the reported objective."""

    gradient: np.ndarray
    neg_elbo: np.ndarray


def follow(solvers, problem, steps):
    """Gradient and objective of each solver at the last of `steps` steps, for RUNS independent runs."""
    fixed = split(problem)[1]

    def step(solver, state, t, key):
        new, info = solver.step(fixed, state, t, jax.random.fold_in(key, t))
        return new, (jax.tree.map(lambda old, new: (old - new) / RATE, state.params, new.params), info.neg_elbo)

    def run(key):
        def step_all(states, t):
            stepped = {name: step(solver, states[name], t, key) for name, solver in solvers.items()}
            return tuple({name: pair[part] for name, pair in stepped.items()} for part in (0, 1))

        start = {name: solver.init(problem, key) for name, solver in solvers.items()}
        followed = jax.lax.scan(step_all, start, jnp.arange(1, steps + 1))[1]
        return jax.tree.map(lambda rows: rows[-1], followed)

    program = jax.jit(lambda keys: jax.lax.map(run, keys), compiler_options=FAST)
    by_name = program(jax.random.split(jax.random.key(0), RUNS))
    return {name: Followed(as_rows(params, RUNS), np.asarray(values)) for name, (params, values) in by_name.items()}


@pytest.fixture(scope="module")
def exact(linear_model):
    return as_rows(exact_gradient(linear_model), 1)[0]


@pytest.fixture(scope="module")
def tracked(linear_model):
    return follow(TRACKED, linear_model, steps=30)


@pytest.fixture(scope="module")
def fresh(linear_model):
    return follow(FRESH, linear_model, steps=1)


@pytest.mark.parametrize("name", ["bank", "bank and ratio", "extrapolated", "extrapolated and ratio"])
def test_gradient_with_a_tracker_is_the_exact_one_within_its_noise(name, tracked, exact):
    assert agrees(tracked[name].gradient, exact)


def test_gradient_from_as_few_inner_samples_without_a_tracker_is_not(tracked, exact):
    assert not agrees(tracked["as few, but fresh only"].gradient, exact)


@pytest.mark.parametrize("name", ["bank", "extrapolated"])
def test_weighing_the_entropy_only_is_less_noisy_than_weighing_the_ratio(name, tracked):
    noise, noise_of_ratio = (tracked[which].gradient.std(axis=0) for which in (name, f"{name} and ratio"))
    assert (noise < noise_of_ratio).all()


@pytest.mark.parametrize("name", ["many", "many and ratio", "many and sketched"])
def test_gradient_from_many_fresh_inner_samples_is_the_exact_one_within_its_noise(name, fresh, exact):
    assert agrees(fresh[name].gradient, exact)


def test_gradient_from_two_inner_samples_is_not(fresh, exact):
    assert not agrees(fresh["two, plain"].gradient, exact)


def nested_means(problem, inner, count=200_000):
    """Means of log(mean of q(z | eps_k)) - log p(z), without and with the own term, sampled with NumPy in float64."""
    rng, family, target = np.random.default_rng(0), problem.family, problem.target
    weight, bias, scale = (np.asarray(array, np.float64) for array in (WEIGHT, BIAS, jnp.exp(LOG_SCALE)))
    location = rng.normal(scale=family.noise.scale, size=(count, 1 + inner, 3)) @ weight + bias
    z = location[:, 0] + scale * rng.normal(size=(count, 2))
    densities = stats.norm(location, scale).pdf(z[:, None]).prod(-1)
    log_p = stats.multivariate_normal(target.mean, target.covariance).logpdf(z) + target.log_constant
    return (np.log(densities[:, 1:].mean(1)) - log_p).mean(), (np.log(densities.mean(1)) - log_p).mean()


def test_reported_objective_is_the_nested_mean_without_or_with_the_own_term(fresh, linear_model):
    plain, safe = nested_means(linear_model, inner=2)
    assert agrees(fresh["two, plain"].neg_elbo, plain)
    assert agrees(fresh["two, safe"].neg_elbo, safe)
    assert not agrees(fresh["two, safe"].neg_elbo, plain)
    assert not agrees(fresh["two, plain"].neg_elbo, safe)
