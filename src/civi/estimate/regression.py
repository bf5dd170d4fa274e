"""Score of q by regression (DIVI): the least-squares fit of grad_z log q(z | eps) given z is grad_z log q(z)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.estimate.player import Hidden, PlayerState, Training
from civi.estimate.score import Draws, Scored, conditions
from civi.family import ACTIVATIONS, MixingNetwork, SemiImplicit
from civi.settings import Choice, check_settings, self_checking


@self_checking
@dataclass(frozen=True)
class Regression:
    """s_psi(z) with psi from min E|s_psi(z) - grad_z log q(z | eps)|^2, improved by a few updates in every step.

    The network is wrong by as much as it lags behind q, so it is trained on far more draws than a step has.
    """

    hidden: Hidden = (64, 64)
    activation: Annotated[str, Choice(ACTIVATIONS), "Activation function of the hidden layers."] = "silu"
    training: Annotated[Training, "How the network is trained."] = field(
        default_factory=lambda: Training(updates=5, draws=512, learning_rate=2e-3)
    )

    def __post_init__(self) -> None:
        check_settings(self, "objective.score")
        wide = all(width >= 1 for width in self.hidden)
        require(wide, f"objective.score.hidden must be widths of at least 1, not {self.hidden}")

    def init(self, family: SemiImplicit, draws: Draws) -> PlayerState:
        z_J, _ = family.push(draws.outer)
        dim = z_J.shape[1]
        sizes = (conditions(family, z_J).shape[1], *self.hidden, dim)
        return self.training.init(MixingNetwork.init(sizes, self.activation, jnp.ones(dim), draws.key))

    def estimate(self, state: PlayerState, family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        count = self.training.draws or len(z_J)

        def squared_error(network: MixingNetwork, key: PRNGKeyArray) -> Array:
            z_B, score_B = family.push_scored(family.draw_outer(key, count))
            return ((network(conditions(family, z_B)) - score_B) ** 2).sum(1).mean()

        state = self.training.improve(state, squared_error, draws.key)
        return Scored(state.network(conditions(family, z_J)), state, None, jnp.ones(()))
