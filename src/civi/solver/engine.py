"""Algorithm 1: compositional optimisation with a tracked inner mean, for any problem.

noise -> mixing network -> conditional -> log ratios -> tracker -> gradient -> primary update -> auxiliary update
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PRNGKeyArray

from civi.errors import require
from civi.estimate import Look, Sketch
from civi.objective.compositional import OBJECTIVES, LogTrick, Objective
from civi.parts import groups, split
from civi.problem.base import Chunk, Problem
from civi.settings import Choice, check_settings, self_checking
from civi.solver.base import Info, Output, Steps
from civi.tracker import TRACKERS, Auxiliary, Bank, Pool, PoolState, Tracker
from civi.update import UPDATES, FirstOrder, Samples, SampleSizes, Update
from civi.update.groups import on_leaves


class EngineState(NamedTuple):
    """State between steps."""

    params: Any
    optimiser: optax.OptState
    pool: PoolState
    pool_key: PRNGKeyArray
    chunk_key: PRNGKeyArray
    tracker: Any


@self_checking
@dataclass(frozen=True)
class CompositionalSolver:
    """min over theta of E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ] by tracking the inner mean (Algorithms 1 and 2).

    Example:
        >>> import civi
        >>> from civi.tracker import Ring
        >>> from civi.update import FirstOrder, Samples
        >>> solver = civi.CompositionalSolver(
        ...     samples=Samples(outer=64, inner=50), tracker=Ring(beta=0.3), update=FirstOrder("rmsprop", 1e-3)
        ... )
        >>> solver.update.rule
        'rmsprop'
    """

    steps: Steps = 3000
    samples: Annotated[Samples, "Numbers of samples per step."] = field(default_factory=Samples)
    pool: Annotated[Pool, "The pool of outer samples, and how long they are kept."] = field(default_factory=Pool)
    tracker: Annotated[Tracker, Choice(TRACKERS), "How the inner mean is tracked."] = field(default_factory=Bank)
    objective: Annotated[Objective, Choice(OBJECTIVES), "How the gradient uses the tracked inner mean."] = field(
        default_factory=LogTrick
    )
    sketch: Annotated[Sketch, "Which outer samples enter the gradient."] = field(default_factory=Sketch)
    update: Annotated[Update, Choice(UPDATES), "How the gradient changes the parameters."] = field(
        default_factory=FirstOrder
    )
    output: Output = "last"

    def __post_init__(self) -> None:
        check_settings(self)
        require(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        self.pool.check_samples(self.samples)

    def init(self, problem: Problem, key: PRNGKeyArray) -> EngineState:
        """theta_1, the first chunk, and y_1 = g(theta_1)."""
        params, _ = split(problem)
        draws = problem.init_draws(self._sizes, key)
        pool = self._pool(problem).init(problem.draw_outer, draws.pool_key)
        look = problem.look(_chunk(pool, draws.chunk_key), None, draws.inner, jnp.asarray(1.0))
        tracker = self.tracker.init(look, self._sizes.most("inner"))
        optimiser = self._optimiser(params).init(params)
        return EngineState(params, optimiser, pool, draws.pool_key, draws.chunk_key, tracker)

    def step(
        self, fixed: Problem, state: EngineState, t: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[EngineState, Info]:
        """One iteration of Algorithm 1."""
        t = jnp.asarray(t, float)
        problem: Any = eqx.combine(state.params, fixed)
        pool, draws = self._pool(problem), problem.step_draws(self._sizes, t, key)

        # Draw nu_1 .. nu_K1 over the chunk in use; a sketch keeps a subset of them.
        chunk = _chunk(state.pool, state.chunk_key)
        nu = problem.draw_nu(pool, self._sizes, self.sketch, t, draws)

        def surrogate(params: Any) -> tuple[Array, tuple[Any, Any]]:
            at: Any = eqx.combine(params, fixed)
            look = at.look(chunk, nu, draws.inner, t)  # g at theta_t from K2 samples
            tracked, tracker = self.tracker.observe(state.tracker, jax.lax.stop_gradient(look), nu.index_S)
            value, report = self.objective.surrogate(at, look, tracked, nu)
            return at.weight(t) * value, (tracker, report)

        gradient, (tracker, report) = jax.grad(surrogate, has_aux=True)(state.params)

        # Primary update: theta_{t+1}.
        change, optimiser = self._optimiser(state.params).update(gradient, state.optimiser, state.params)
        params = optax.apply_updates(state.params, change)

        # Auxiliary update: the tracker may evaluate g again with K3 samples, at theta_{t+1} or extrapolated beyond it.
        next_pool, new_J = pool.advance(state.pool, problem.draw_outer, state.pool_key)
        next_chunk = _chunk(next_pool, state.chunk_key)

        def look_again(query: Any) -> Look:
            return eqx.combine(query, fixed).look(next_chunk, None, draws.auxiliary, t)

        tracker = self.tracker.refresh(tracker, Auxiliary(state.params, params, new_J, look_again))

        norm = optax.tree.norm(gradient)
        info = Info(report.value, report.weight_mean, report.weight_sd, norm, acceptance=jnp.ones(()))
        return EngineState(params, optimiser, next_pool, state.pool_key, state.chunk_key, tracker), info

    @property
    def _sizes(self) -> SampleSizes:
        return SampleSizes(self.samples, self.steps)

    def _pool(self, problem: Any) -> Pool:
        return problem.pool(self.pool, self.samples.outer)

    def _optimiser(self, params: Any) -> optax.GradientTransformation:
        return on_leaves(lambda labels: self.update.transformation(labels, self.steps), groups(params))


def _chunk(pool: PoolState, key: PRNGKeyArray) -> Chunk:
    """The outer samples in use. Their key changes only with them, because y_j and g_j must be on the same data."""
    return Chunk(pool.outer, jax.random.fold_in(key, pool.next_block))
