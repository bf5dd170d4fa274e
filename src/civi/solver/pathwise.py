"""The pathwise engine: the gradient flows through the draws z(theta), perhaps after the move of a second player.

noise -> mixing -> conditional -> z -> second player -> gradient of the surrogate -> update
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.estimate import Draws, log_ratios, mix_own
from civi.family import SemiImplicit
from civi.objective import PATHWISE, PathGradient, Pathwise
from civi.objective.base import LogProbEach
from civi.parts import groups, split
from civi.problem.semi_implicit import SemiImplicitProblem, solver_key
from civi.settings import Choice, check_settings, self_checking
from civi.solver.base import Info, Output, Steps
from civi.update import UPDATES, FirstOrder, Samples, SampleSizes, Update
from civi.update.groups import on_leaves


class PathwiseState(NamedTuple):
    """State between steps."""

    params: Any
    optimiser: optax.OptState
    player: Any


@self_checking
@dataclass(frozen=True)
class PathwiseSolver:
    """min over theta of an objective of z(theta), such as a path gradient of the KL or a minimax divergence.

    An objective that does not need the inner samples uses them only for the reported neg_elbo.
    """

    steps: Steps = 3000
    samples: Annotated[Samples, "Numbers of samples per step."] = field(default_factory=Samples)
    objective: Annotated[Pathwise, Choice(PATHWISE), "What is minimised, and how its gradient is estimated."] = field(
        default_factory=PathGradient
    )
    update: Annotated[Update, Choice(UPDATES), "How the gradient changes the parameters."] = field(
        default_factory=FirstOrder
    )
    output: Output = "last"

    def __post_init__(self) -> None:
        check_settings(self)
        require(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        constant = not self.samples.growth and self.samples.auxiliary is None
        require(constant, "samples.growth and samples.auxiliary are for solvers with a tracker: leave them unset")

    def init(self, problem: SemiImplicitProblem, key: PRNGKeyArray) -> PathwiseState:
        """theta_1 and the second player's first state."""
        params = split(problem)[0]
        family, _ = problem.on_batch(key)
        player = self.objective.init(family, self._draws(family, jnp.asarray(1), key, key, key))
        return PathwiseState(params, self._optimiser(params).init(params), player)

    def step(
        self, fixed: SemiImplicitProblem, state: PathwiseState, t: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[PathwiseState, Info]:
        """One iteration: outer samples, the second player's move, gradient, update."""
        outer_key, player_key, inner_key, data_key = jax.random.split(solver_key(key), 4)
        family, log_prob_each = eqx.combine(state.params, fixed).on_batch(data_key)
        draws = self._draws(family, t, outer_key, inner_key, player_key)
        prepared = self.objective.prepare(state.player, family, log_prob_each, draws)

        def surrogate(params: Any) -> Array:
            family, log_prob_each = eqx.combine(params, fixed).on_batch(data_key)
            return self.objective.surrogate(family, log_prob_each, draws, prepared.aid)

        gradient = jax.grad(surrogate)(state.params)
        change, optimiser = self._optimiser(state.params).update(gradient, state.optimiser, state.params)

        neg_elbo = _neg_elbo(family, log_prob_each, draws) if prepared.neg_elbo is None else prepared.neg_elbo
        info = Info(neg_elbo, jnp.ones(()), jnp.zeros(()), optax.tree.norm(gradient), prepared.acceptance)
        return PathwiseState(optax.apply_updates(state.params, change), optimiser, prepared.player), info

    def _draws(
        self,
        family: SemiImplicit,
        t: Int[Array, ""],
        outer_key: PRNGKeyArray,
        inner_key: PRNGKeyArray,
        player_key: PRNGKeyArray,
    ) -> Draws:
        """The outer samples, the inner samples of which K2 are in use at step t, and the second player's randomness."""
        sizes = SampleSizes(self.samples, self.steps)
        kept = sizes.at("inner", t) if self.samples.stages else jnp.asarray(self.samples.inner)
        inner_eps = family.noise.sample(inner_key, sizes.most("inner"))
        return Draws(family.draw_outer(outer_key, self.samples.outer), inner_eps, kept, player_key)

    def _optimiser(self, params: Any) -> optax.GradientTransformation:
        return on_leaves(lambda labels: self.update.transformation(labels, self.steps), groups(params))


def _neg_elbo(family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Float[Array, ""]:
    """The safe bound from the inner samples, for objectives without an estimate of log q."""
    ratios = log_ratios(family, log_prob_each, draws.outer, draws.inner_eps, draws.kept)
    return mix_own(ratios.fresh_J, ratios.own_J, 1 / (draws.kept + 1.0)).mean()
