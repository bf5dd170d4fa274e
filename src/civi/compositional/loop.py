"""`minimise`: all steps of a method in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from civi.compositional.methods import METHODS, Method
from civi.compositional.problem import Problem, Theta, check
from civi.compositional.step import Info, State, init, step
from civi.errors import require, unknown


class Result(NamedTuple):
    """The last theta, the history (arrays with one entry per step), and `measure` of every iterate where given."""

    theta: Theta
    history: Info
    measured: Any

    @property
    def skipped(self) -> Array:
        """How many steps were not finite and left theta as it was."""
        return self.history.skipped.sum(axis=-1)


def minimise(
    problem: Problem,
    theta_1: Theta,
    key: PRNGKeyArray,
    method: str | Method = "civi",
    steps: int = 2000,
    measure: Callable[[Theta], Any] | None = None,
) -> Result:
    """Minimise E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ] from theta_1, any pytree of float arrays.

    `method` is a name (scgd, asc-pg, cadam, civi, nmc) or its settings, for example Civi(c_alpha=0.1). Step t draws
    from fold_in(key, t). A step that is not finite is undone and counted in `skipped`. `measure(theta_{t+1})` is stored
    after every step. The function can be transformed: vmap it over keys to run many seeds at once.
    """
    require(steps >= 1, f"steps must be at least 1, not {steps}")
    settings = _settings(method)
    check(problem, theta_1, key)
    return _run(problem, settings, theta_1, key, steps, measure)


def _settings(method: str | Method) -> Method:
    if isinstance(method, str):
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        return METHODS[method]()
    require(isinstance(method, Method), f"method must be a name or settings, not a {type(method).__name__}")
    return method


@eqx.filter_jit
def _run(
    problem: Problem,
    method: Method,
    theta_1: Theta,
    key: PRNGKeyArray,
    steps: int,
    measure: Callable[[Theta], Any] | None,
) -> Result:
    start = init(problem, method, theta_1, steps, jax.random.fold_in(key, 0))

    def body(state: State, t: Array) -> tuple[State, tuple[Info, Any]]:
        new, info = step(problem, method, state, t, steps, jax.random.fold_in(key, t))
        return new, (info, measure(new.theta) if measure else None)

    last, (history, measured) = jax.lax.scan(body, start, jnp.arange(1, steps + 1))
    return Result(last.theta, history, measured)
