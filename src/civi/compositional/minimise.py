"""`minimise`: solve a compositional problem of your own with the engine of semi-implicit inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.compositional.methods import METHODS
from civi.errors import require, unknown
from civi.parts import split
from civi.problem.oracles import OracleProblem, Oracles, first_count
from civi.solver import CompositionalSolver
from civi.solver.loop import COLUMNS, begin, run_scan
from civi.tracker import Smoothing
from civi.update import SampleSizes


class History(NamedTuple):
    """Arrays with one entry per step.

    Attributes:
        objective: mean of f at y_t.
        gradient_norm: norm of the gradient.
        oracle_calls: total number of calls of f and g so far.
        skipped: whether the step was undone because it was not finite.
    """

    objective: Float[Array, "*steps"]
    gradient_norm: Float[Array, "*steps"]
    oracle_calls: Int[Array, "*steps"]
    skipped: Bool[Array, "*steps"]


class Result(NamedTuple):
    """The last theta, the history, and the value of `measure` after every step (None without `measure`).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from civi.compositional import Oracles, minimise
        >>> oracles = Oracles(inner=lambda theta, key: theta, outer=lambda y, key: (y**2).sum())
        >>> found = minimise(oracles, jnp.ones(1), jax.random.key(0), "scgd", steps=10)
        >>> int(found.skipped), found.history.objective.shape
        (0, (10,))
    """

    theta: Any
    history: History
    measured: Any

    @property
    def skipped(self) -> Array:
        """Number of steps that were undone because they were not finite."""
        return self.history.skipped.sum(axis=-1)


def minimise(
    oracles: Oracles,
    theta_1: Any,
    key: PRNGKeyArray,
    method: str | CompositionalSolver = "civi",
    steps: int = 2000,
    measure: Callable[[Any], Any] | None = None,
) -> Result:
    """Minimise E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ], starting at theta_1.

    This function can be transformed by JAX: apply vmap over keys to run many seeds at once.

    Args:
        oracles: inner(theta, key) and outer(y, key), each for one random sample.
        theta_1: starting point, any pytree of float arrays.
        key: random key; step t draws from fold_in(key, t).
        method: a name (scgd, asc-pg, cadam, civi, nmc) or the result of one of the functions in
            `civi.compositional.methods` with your own constants, for example civi(c_alpha=0.1).
        steps: number of steps. A step that is not finite is undone and counted in `skipped`.
        measure: a function of theta whose value is stored after every step.

    Returns:
        The last theta, the history, and the values of `measure`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from civi.compositional import Oracles, minimise, scgd
        >>> oracles = Oracles(
        ...     inner=lambda theta, key: theta * (1 + jax.random.normal(key)),
        ...     outer=lambda y, key: ((y - 3.0) ** 2).sum(),
        ... )
        >>> found = minimise(oracles, jnp.ones(1), jax.random.key(0), scgd(), steps=200)
        >>> bool(abs(found.theta[0] - 3) < 1)
        True
    """
    require(steps >= 1, f"steps must be at least 1, not {steps}")
    solver = replace(_solver(method), steps=steps)
    problem = OracleProblem(theta_1, oracles)
    problem.check()
    return _run(solver, problem, key, measure)


def _solver(method: str | CompositionalSolver) -> CompositionalSolver:
    if isinstance(method, str):
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        return METHODS[method]()
    require(
        isinstance(method, CompositionalSolver),
        f"method must be a name or a CompositionalSolver, not a {type(method).__name__}",
    )
    return method


@eqx.filter_jit
def _run(
    solver: CompositionalSolver, problem: OracleProblem, key: PRNGKeyArray, measure: Callable[[Any], Any] | None
) -> Result:
    fixed = split(problem)[1]
    start = begin(solver, problem, jax.random.fold_in(key, 0), key)
    of_theta = (lambda params: measure(params.theta)) if measure else None
    last, rows, measured = run_scan(solver, fixed, start, of_theta)
    column = dict(zip(COLUMNS, rows.T, strict=True))
    history = History(column["neg_elbo"], column["gradient_norm"], _oracle_calls(solver), column["skipped"] > 0)
    return Result(last.solver.params.theta, history, measured)


def _oracle_calls(solver: CompositionalSolver) -> Int[Array, " steps"]:
    """Total number of calls of f and g after every step.

    A tracker with an auxiliary update evaluates g a second time in every step, and also before the first step.
    """
    sizes = SampleSizes(solver.samples, solver.steps)
    has_auxiliary = isinstance(solver.tracker, Smoothing)
    kinds = ("outer", "inner", "auxiliary") if has_auxiliary else ("outer", "inner")
    t = jnp.arange(1, solver.steps + 1, dtype=float)
    per_step = sum(jax.vmap(lambda t, kind=kind: sizes.at(kind, t))(t) for kind in kinds)
    return jnp.cumsum(per_step) + (first_count(sizes) if has_auxiliary else 0)
