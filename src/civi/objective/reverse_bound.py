"""The upper bound on log q(z) with a learned reverse model (IWHVI, Sobolev and Vetrov 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.estimate import Draws, log_mean_exp
from civi.estimate.coupling import CouplingFlow
from civi.estimate.player import PlayerState, Training
from civi.estimate.proposal import Reverse, log_weights, proposed
from civi.family import SemiImplicit
from civi.objective.base import LogProbEach, Prepared
from civi.settings import check_settings, self_checking


@self_checking
@dataclass(frozen=True)
class ReverseBound:
    """mean_j [log 1/(K+1) sum_{k=0..K} q(eps_k) q(z_j | eps_k) / tau(eps_k | z_j) - log p(x, z_j)], eps_0 that of z_j.

    In expectation over eps_1 .. eps_K ~ tau it is an upper bound on neg_elbo for every tau. Both q and tau minimise it;
    the draws of tau are differentiated through z_j and through tau.
    """

    reverse: Annotated[Reverse, "The reverse model."] = field(default_factory=Reverse)
    training: Annotated[Training, "How the reverse model is trained."] = field(default_factory=Training)
    trains_decoder = True

    def __post_init__(self) -> None:
        check_settings(self, "objective")

    def init(self, family: SemiImplicit, draws: Draws) -> PlayerState:
        return self.training.init(self.reverse.init(family, draws))

    def prepare(self, player: PlayerState, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Prepared:
        def loss(flow: CouplingFlow, key: PRNGKeyArray) -> Array:
            count = self.training.draws or len(draws.outer.eps)
            others = draws._replace(outer=family.draw_outer(key, count), key=key)
            return _log_q(flow, family, others)[0].mean()

        player = self.training.improve(player, loss, draws.key)
        log_q_J, z_J = _log_q(player.network, family, draws)
        return Prepared(player.network, player, (log_q_J - log_prob_each(z_J)).mean(), jnp.ones(()))

    def surrogate(
        self, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws, aid: CouplingFlow
    ) -> Float[Array, ""]:
        log_q_J, z_J = _log_q(aid, family, draws)
        return (log_q_J - log_prob_each(z_J)).mean()


def _log_q(flow: CouplingFlow, family: SemiImplicit, draws: Draws) -> tuple[Float[Array, " J"], Float[Array, "J D"]]:
    """The bound on log q(z_j), and z_j."""
    z_J, _ = family.push(draws.outer)
    eps_JK, log_tau_JK = proposed(flow, family, z_J, draws, draws.key, own=True)
    return log_mean_exp(log_weights(family, z_J, eps_JK, log_tau_JK), draws.kept + 1), z_J
