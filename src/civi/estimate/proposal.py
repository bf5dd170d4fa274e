"""Importance sampling of q(z) = E[q(z | eps)] from a learned reverse model tau(eps | z) (AISIVI, IWHVI)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.estimate.coupling import CouplingFlow
from civi.estimate.fresh import Own
from civi.estimate.log_ratio import log_mean_exp
from civi.estimate.player import Hidden, PlayerState, Training
from civi.estimate.score import Draws, Scored, conditions, continuous_noise, with_slope
from civi.family import SemiImplicit
from civi.settings import check_settings, self_checking


@self_checking
@dataclass(frozen=True)
class Reverse:
    """The reverse model tau(eps | z): a conditional coupling flow."""

    layers: Annotated[int, "Coupling layers of the reverse model."] = 4
    hidden: Hidden = (32, 32)

    def __post_init__(self) -> None:
        check_settings(self, "reverse")
        require(self.layers >= 1, f"reverse.layers must be at least 1, not {self.layers}")
        wide = len(self.hidden) >= 1 and min(self.hidden) >= 1
        require(wide, f"reverse.hidden must be widths of at least 1, not {self.hidden}")

    def init(self, family: SemiImplicit, draws: Draws) -> CouplingFlow:
        """A flow for this family, at the prior."""
        noise = continuous_noise(family)
        z_J, _ = family.push(draws.outer)
        condition = conditions(family, z_J).shape[1]
        return CouplingFlow.init(noise.dim, condition, noise.scale, self.layers, self.hidden, draws.key)


@self_checking
@dataclass(frozen=True)
class Proposal:
    """grad_z log mean_k q(eps_k) q(z_j | eps_k) / tau(eps_k | z_j) with eps_k ~ tau( . | z_j), which is held constant.

    tau is trained by maximum likelihood on joint draws (eps, z) of q. As it is a distribution over eps for every z, it
    finds the few eps that could have made z, where fresh samples of the prior mostly miss them. Without the own noise
    and with few draws, q can shrink away from what tau proposes, as with the plain mean of the log trick.
    """

    own: Own = True
    reverse: Annotated[Reverse, "The reverse model."] = field(default_factory=Reverse)
    training: Annotated[Training, "How the reverse model is trained."] = field(default_factory=Training)

    def __post_init__(self) -> None:
        check_settings(self, "objective.score")

    def init(self, family: SemiImplicit, draws: Draws) -> PlayerState:
        return self.training.init(self.reverse.init(family, draws))

    def estimate(self, state: PlayerState, family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        train_key, draw_key = jax.random.split(draws.key)
        count = self.training.draws or len(z_J)

        def neg_log_likelihood(flow: CouplingFlow, key: PRNGKeyArray) -> Array:
            outer = family.draw_outer(key, count)
            return -flow.log_prob(outer.eps, conditions(family, family.push(outer)[0])).mean()

        state = self.training.improve(state, neg_log_likelihood, train_key)
        eps_JK, log_tau_JK = proposed(state.network, family, z_J, draws, draw_key, own=self.own)

        def log_q(z_J: Array) -> Array:
            return log_mean_exp(log_weights(family, z_J, eps_JK, log_tau_JK), draws.kept + self.own)

        log_q_J, score_J = with_slope(log_q, z_J)
        return Scored(score_J, state, log_q_J, jnp.ones(()))


def proposed(
    flow: CouplingFlow, family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws, key: PRNGKeyArray, *, own: bool
) -> tuple[Float[Array, "J K E"], Float[Array, "J K"]]:
    """As many draws of tau(eps | z_j) as there are inner samples, and their log densities.

    Args:
        flow: tau.
        family: the semi-implicit family.
        z_J: outer samples.
        draws: randomness of the step.
        key: draws the noise.
        own: whether the noise that made z_j comes first, as the draw k = 0.
    """
    condition_J = conditions(family, z_J)
    eps_JK, log_tau_JK = flow.draw(condition_J, key, len(draws.inner_eps))
    if not own:
        return eps_JK, log_tau_JK
    own_eps_J = draws.outer.eps
    own_log_tau_J = flow.log_prob(own_eps_J, condition_J)
    joined_JK = jnp.concatenate([own_eps_J[:, None], eps_JK], axis=1)
    return joined_JK, jnp.concatenate([own_log_tau_J[:, None], log_tau_JK], axis=1)


def log_weights(
    family: SemiImplicit, z_J: Float[Array, "J D"], eps_JK: Float[Array, "J K E"], log_tau_JK: Float[Array, "J K"]
) -> Float[Array, "J K"]:
    """log q(eps_jk) + log q(z_j | eps_jk) - log tau(eps_jk | z_j), with K noise vectors of its own for every z_j."""
    outer, inner, _ = eps_JK.shape
    mixed = family.mix_each(eps_JK.reshape(outer * inner, -1)).reshape(outer, inner, -1)
    of_outer = jax.vmap(family.conditional.log_prob, in_axes=(0, None))
    log_prior_JK = jax.vmap(jax.vmap(family.noise.log_prob))(eps_JK)
    return jax.vmap(of_outer)(mixed, z_J) + log_prior_JK - log_tau_JK
