"""Runs for claims.py with exact answers: z = A eps + b + S u is Gaussian, and so is the target.

As in the theorem, a run keeps one pool of outer samples. At states stored along the run, gradient estimates are
compared with the exact gradient of the loss on this pool.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.scipy.stats import multivariate_normal

from civi.family import DiagonalGaussian, GaussianNoise, MixingNetwork, Outer, SemiImplicit
from civi.parts import groups, split
from civi.problem import PosteriorProblem
from civi.problem.base import Inner, StepDraws
from civi.solver import CompositionalSolver, LogTrick
from civi.solver.engine import EngineState
from civi.tracker import Extrapolated, NoTracker, Pool, Smoothed, Tracker
from civi.tracker.smoothing import Average, SmoothingState
from civi.update import CiviAdam, FirstOrder, Samples, SampleSizes, Update

POOL = 32
GROWTH = 0.8


@dataclass(frozen=True)
class Size:
    """The size of the experiment: steps T, seeds, fresh keys per measured state, the constant C of K_t = C t^(4/5)."""

    steps: int = 800
    seeds: int = 12
    keys: int = 16
    constant: int = 3

    @property
    def times(self) -> np.ndarray:
        """Log-spaced steps at which the gradient estimate is measured."""
        return np.unique(np.geomspace(8, self.steps, 10).round().astype(int))

    @property
    def level(self) -> int:
        """The constant K that uses as many samples over the run as the growing K_t."""
        return round(self.constant * float(np.mean(np.arange(1, self.steps + 1.0) ** GROWTH)))


class Error(NamedTuple):
    """Errors of a gradient estimate given the state: mean squared error, squared bias, and the bias itself."""

    squared: Any
    bias_squared: Any
    bias: Any


class Measured(NamedTuple):
    """Per seed: |grad L|^2 at every step, and the errors of the run's own and of the untracked gradient estimate."""

    norm_ST: Any
    own: Error
    untracked: Error


class GaussianTarget(eqx.Module):
    """N(mean, covariance)."""

    mean: jax.Array
    covariance: jax.Array

    @property
    def dim(self) -> int:
        """Dimension of z."""
        return self.mean.size

    def log_prob(self, z: jax.Array) -> jax.Array:
        """log p(z)."""
        return jnp.asarray(multivariate_normal.logpdf(z, self.mean, self.covariance))


@dataclass(frozen=True)
class FixedScale:
    """An update that keeps the scale S of the conditional fixed."""

    update: Update

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        """The transformation of the update, with the update of the scale group set to zero."""
        is_scale = jax.tree.map(lambda label: label == "scale", labels)
        return optax.chain(self.update.transformation(labels, steps), optax.masked(optax.set_to_zero(), is_scale))


class WholeKeyProblem(PosteriorProblem):
    """Draws the samples of a step from its whole key, because these runs draw no iterate from the other half of it."""

    def step_draws(self, sizes: SampleSizes, t: jax.Array, key: jax.Array) -> StepDraws:
        """Keys of nu, the sketch, the look and the auxiliary look."""
        nu_key, sketch_key, *look_keys = jax.random.split(key, 4)
        inner, auxiliary = (
            Inner(look_key, sizes.most(kind), sizes.at(kind, t))
            for look_key, kind in zip(look_keys, ("inner", "auxiliary"), strict=True)
        )
        return StepDraws(nu_key, sketch_key, inner, auxiliary)


def start() -> PosteriorProblem:
    """The problem at its initial parameters theta_1."""
    mixing = MixingNetwork((jnp.array([[0.6, -0.3], [0.2, 0.5]]),), (jnp.array([0.5, -0.3]),), "relu")
    family = SemiImplicit(GaussianNoise(2), mixing, DiagonalGaussian(jnp.log(jnp.array([0.8, 0.7]))))
    return WholeKeyProblem(family, GaussianTarget(jnp.array([-0.2, 0.6]), jnp.array([[1.5, 0.4], [0.4, 0.9]])))


def pool_log_ratios(params: PosteriorProblem, fixed: PosteriorProblem, outer: Outer) -> jax.Array:
    """log q(z_j) - log p(z_j) of the pool, with the exact q = N(b, A A' + S S'); the theorem's L is their mean."""
    problem: Any = eqx.combine(params, fixed)
    (weight,), (bias,) = problem.family.mixing.weights, problem.family.mixing.biases
    covariance = weight.T @ weight + jnp.diag(jnp.exp(2 * problem.family.conditional.log_scale))
    z_J, _ = problem.family.push(outer)
    return multivariate_normal.logpdf(z_J, bias, covariance) - jax.vmap(problem.target.log_prob)(z_J)


def arms(size: Size) -> dict[str, CompositionalSolver]:
    """The solvers to compare: CI-VI and nested Monte Carlo with growing and constant K, SCGD, and a trained scale S."""
    pool = Pool(size=POOL, chunk=POOL, switch_every=None, draw="uniform")
    grown = Samples(size.constant, size.constant, growth=GROWTH)
    level = Samples(size.level, size.level)
    theorem = CiviAdam(c_alpha=0.01, c_gamma=0.9, mu=0.9)
    published = FirstOrder("sgd", learning_rate=0.5, decay="power", power=3 / 4, clip=10.0)

    def arm(samples: Samples, tracker: Tracker, update: Update) -> CompositionalSolver:
        return CompositionalSolver(size.steps, samples, pool, tracker, LogTrick("plain", "ratio"), update=update)

    return {
        "civi, theorem schedule": arm(grown, Extrapolated(0.5), FixedScale(theorem)),
        "civi, constant K": arm(level, Extrapolated(0.5), FixedScale(theorem)),
        "nmc, growing K": arm(grown, NoTracker(), FixedScale(theorem)),
        "nmc, constant K": arm(level, NoTracker(), FixedScale(theorem)),
        "scgd, constant K": arm(level, Smoothed(1.0, 1 / 2), FixedScale(published)),
        "civi, theorem, S trained": arm(grown, Extrapolated(0.5), theorem),
        "nmc, growing K, S trained": arm(grown, NoTracker(), theorem),
    }


def measure(solver: CompositionalSolver, size: Size) -> Measured:
    """Measure all seeds of one solver."""
    per_seed = partial(measure_seed, solver, size.times, size.keys)
    keys = jax.random.split(jax.random.key(0), size.seeds)
    return jax.tree.map(lambda values: np.asarray(values, float), jax.jit(jax.vmap(per_seed))(keys))


def measure_seed(solver: CompositionalSolver, times: np.ndarray, fresh: int, key: jax.Array) -> Measured:
    """Run one seed, then measure its own and the untracked gradient estimate at the states of `times`.

    Args:
        solver: the solver.
        times: the steps whose states are measured.
        fresh: number of fresh keys per state.
        key: random key of the seed.
    """
    init_key, run_key, probe_key = jax.random.split(key, 3)
    problem = start()
    _, fixed = split(problem)
    first = solver.init(problem, init_key)
    flat = partial(flatten, trained_scale=not isinstance(solver.update, FixedScale))
    exact = jax.grad(lambda params: pool_log_ratios(params, fixed, first.pool.outer).mean())

    def step(state: EngineState, t: jax.Array) -> tuple[EngineState, tuple]:
        after, _ = solver.step(fixed, state, t, jax.random.fold_in(run_key, t))
        return after, (state.params, state.tracker, jnp.sum(flat(exact(state.params)) ** 2))

    _, (params_T, tracker_T, norm_T) = jax.lax.scan(step, first, jnp.arange(1, solver.steps + 1))

    def errors(t: jax.Array) -> tuple[Error, Error]:
        params, tracker = jax.tree.map(lambda values_T: values_T[t - 1], (params_T, tracker_T))
        log_g_J = pool_log_ratios(params, fixed, first.pool.outer)
        perfect = SmoothingState(Average(log_g_J, jnp.ones(POOL)), jnp.asarray(1))
        state = first._replace(params=params)
        keys = jax.random.split(jax.random.fold_in(probe_key, t), fresh)
        probes = (solver.tracker, tracker), (NoTracker(), ()), (Extrapolated(), perfect)
        own_NP, untracked_NP, unbiased_NP = (
            jax.vmap(flat)(estimates(replace(solver, tracker=by), fixed, state._replace(tracker=values), t, keys))
            for by, values in probes
        )
        gradient_P = flat(exact(params))
        return error(own_NP, unbiased_NP, gradient_P), error(untracked_NP, unbiased_NP, gradient_P)

    return Measured(norm_T, *jax.lax.map(errors, jnp.asarray(times)))


def error(estimate_NP: jax.Array, unbiased_NP: jax.Array, exact_P: jax.Array) -> Error:
    """Errors given the state. The estimate with exact denominators is unbiased and serves as a control variate."""
    apart_NP = estimate_NP - unbiased_NP
    bias_P = apart_NP.mean(axis=0)
    excess = apart_NP.var(axis=0, ddof=1).sum() / len(apart_NP)
    return Error(jnp.mean(jnp.sum((estimate_NP - exact_P) ** 2, axis=1)), jnp.sum(bias_P**2) - excess, bias_P)


def estimates(
    solver: CompositionalSolver, fixed: PosteriorProblem, state: EngineState, t: jax.Array, keys: jax.Array
) -> PosteriorProblem:
    """The gradients that a step uses at this state, one per key: theta_t - theta_{t+1} of an SGD step with rate 1."""
    plain = FirstOrder("sgd", learning_rate=1.0, decay="constant")
    probe = replace(solver, update=plain)
    state = state._replace(optimiser=plain.transformation(groups(state.params), solver.steps).init(state.params))

    def estimate(key: jax.Array) -> PosteriorProblem:
        after, _ = probe.step(fixed, state, t, key)
        return jax.tree.map(jnp.subtract, state.params, after.params)

    return jax.lax.map(estimate, keys)


def flatten(gradient: PosteriorProblem, trained_scale: bool) -> jax.Array:
    """The gradient with respect to the trained parameters, as one vector."""
    return ravel_pytree(gradient if trained_scale else gradient.family.mixing)[0]
