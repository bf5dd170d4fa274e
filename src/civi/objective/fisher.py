"""Fisher divergence as a minimax game (SIVI-SM, Yu and Zhang 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.estimate import Draws
from civi.estimate.player import Hidden, PlayerState, Training
from civi.family import MixingNetwork, SemiImplicit
from civi.objective.base import LogProbEach, Prepared, stein_terms
from civi.settings import check_settings, self_checking


@self_checking
@dataclass(frozen=True)
class Fisher:
    """min over q, max over a network f: E[2 f(z).(s_p(z) - grad_z log q(z | eps)) - |f(z)|^2].

    The best f is the score of p minus that of q, for which the value is the Fisher divergence E|s_p - s_q|^2.
    """

    hidden: Hidden = (128, 128)
    training: Annotated[Training, "How the network f is trained."] = field(
        default_factory=lambda: Training(learning_rate=2e-3)
    )
    trains_decoder = False

    def __post_init__(self) -> None:
        check_settings(self, "objective")
        wide = all(width >= 1 for width in self.hidden)
        require(wide, f"objective.hidden must be widths of at least 1, not {self.hidden}")

    def init(self, family: SemiImplicit, draws: Draws) -> PlayerState:
        dim = draws.outer.u.shape[1]
        return self.training.init(MixingNetwork.init((dim, *self.hidden, dim), "relu", jnp.ones(dim), draws.key))

    def prepare(self, player: PlayerState, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Prepared:
        count = self.training.draws or len(draws.outer.eps)

        def loss(network: MixingNetwork, key: PRNGKeyArray) -> Array:
            z_J, stein_J = jax.lax.stop_gradient(stein_terms(family, log_prob_each, family.draw_outer(key, count)))
            return -_value(network, z_J, stein_J)

        player = self.training.improve(player, loss, draws.key)
        return Prepared(player.network, player, None, jnp.ones(()))

    def surrogate(
        self, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws, aid: MixingNetwork
    ) -> Float[Array, ""]:
        return _value(aid, *stein_terms(family, log_prob_each, draws.outer))


def _value(network: MixingNetwork, z_J: Float[Array, "J D"], stein_J: Float[Array, "J D"]) -> Float[Array, ""]:
    """mean_j [2 f(z_j).stein_j - |f(z_j)|^2]."""
    f_J = network(z_J)
    return (f_J * (2 * stein_J - f_J)).sum(1).mean()
