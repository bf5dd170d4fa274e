"""UIVI (Titsias and Ruiz 2019): an unbiased gradient of the entropy by MCMC on the reverse conditional."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.estimate import log_ratios, mix_own
from civi.estimate.reverse import entropy_score, reverse_conditional
from civi.family import Architecture
from civi.parts import groups, split
from civi.problem.semi_implicit import SemiImplicitProblem, solver_key
from civi.settings import Choice, check_settings, self_checking
from civi.solver.base import DEFAULTS, Defaults, Info, Method, Output, Steps
from civi.update import UPDATES, FirstOrder, Samples, Update


class UiviState(NamedTuple):
    """State between steps."""

    params: Any
    optimiser: optax.OptState
    log_step_size: Float[Array, ""]


@self_checking
@dataclass(frozen=True)
class Uivi:
    """grad neg_elbo = E[(grad_z log q(z) - grad_z log p(x, z)) dz/dtheta], with grad_z log q(z) from reverse draws.

    samples.inner only affects the reported neg_elbo.
    """

    steps: Steps = 3000
    samples: Annotated[Samples, "Numbers of samples per step."] = field(default_factory=Samples)
    burn_in: Annotated[int, "Burn-in HMC transitions per step, which are discarded."] = 5
    kept: Annotated[int, "HMC transitions per step after burn-in, whose draws are used."] = 5
    leapfrog: Annotated[int, "Leapfrog steps per HMC transition."] = 5
    acceptance: Annotated[float, "Target acceptance rate of the HMC step-size adaptation."] = 0.9
    adaptation: Annotated[float, "Adaptation rate of the logarithm of the HMC step size."] = 0.05
    update: Annotated[Update, Choice(UPDATES), "How the gradient changes the parameters."] = field(
        default_factory=FirstOrder
    )
    output: Output = "last"

    def __post_init__(self) -> None:
        check_settings(self)
        require(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        require(self.burn_in >= 0, f"burn_in must not be negative, not {self.burn_in}")
        require(self.kept >= 1, f"kept must be at least 1, not {self.kept}")
        require(self.leapfrog >= 1, f"leapfrog must be at least 1, not {self.leapfrog}")
        require(0 < self.acceptance < 1, f"acceptance must be in (0, 1), not {self.acceptance}")

    def init(self, problem: SemiImplicitProblem, key: PRNGKeyArray) -> UiviState:
        """theta_1, and an initial HMC step size for noise of unit scale."""
        params = split(problem)[0]
        return UiviState(params, self._optimiser(params).init(params), jnp.log(0.1))

    def step(
        self, fixed: SemiImplicitProblem, state: UiviState, t: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[UiviState, Info]:
        """One iteration: outer samples, reverse draws, gradient, update."""
        outer_key, chain_key, inner_key, data_key = jax.random.split(solver_key(key), 4)
        family, log_prob_each = eqx.combine(state.params, fixed).on_batch(data_key)
        outer = family.draw_outer(outer_key, self.samples.outer)
        inner_eps = family.noise.sample(inner_key, self.samples.inner)
        ratios = log_ratios(family, log_prob_each, outer, inner_eps, jnp.asarray(self.samples.inner))
        draws = reverse_conditional(
            family,
            ratios.z_J,
            outer.eps,
            jnp.exp(state.log_step_size),
            chain_key,
            burn_in=self.burn_in,
            kept=self.kept,
            leapfrog=self.leapfrog,
        )
        score_J = entropy_score(family, ratios.z_J, draws.eps_MJ)

        def objective(params: Any) -> Array:
            family, log_prob_each = eqx.combine(params, fixed).on_batch(data_key)
            z_J, _ = family.push(outer)
            return ((score_J * z_J).sum(1) - log_prob_each(z_J)).mean()

        gradient = jax.grad(objective)(state.params)
        change, optimiser = self._optimiser(state.params).update(gradient, state.optimiser, state.params)
        log_step_size = state.log_step_size + self.adaptation * (draws.acceptance - self.acceptance)

        log_g_J = mix_own(ratios.fresh_J, ratios.own_J, jnp.asarray(1 / (self.samples.inner + 1)))
        one, none = jnp.ones(()), jnp.zeros(())
        info = Info(log_g_J.mean(), one, none, optax.tree.norm(gradient), draws.acceptance)
        return UiviState(optax.apply_updates(state.params, change), optimiser, log_step_size), info

    def _optimiser(self, params: Any) -> optax.GradientTransformation:
        return self.update.transformation(groups(params), self.steps)


def uivi(family: Architecture, defaults: Defaults = DEFAULTS) -> Method:
    """UIVI: unbiased entropy gradient by HMC on q(eps | z), 5 burn-in and 5 kept draws, Adam."""
    return Method(family, Uivi(samples=defaults.samples, update=defaults.update))
