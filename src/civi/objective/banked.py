"""Score of q from this step's inner samples and those of the last steps: the bank as a function of z."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.errors import require
from civi.estimate import Draws, LogRatios, Scored, mix_own
from civi.estimate.log_ratio import log_mean_pairs
from civi.family import SemiImplicit
from civi.settings import check_settings, self_checking
from civi.tracker.bank import Bank, BankState


@self_checking
@dataclass(frozen=True)
class Banked:
    """grad_z log [q(z_j | eps_j) / (K + 1) + sum over K = (steps + 1) K2 mixing outputs of q(z_j | eps_k) / (K + 1)].

    The past mixing outputs are those of past parameters. They cost one matrix product, and no pass of the network.
    """

    steps: Annotated[int, "Number of past steps whose mixing outputs are kept."] = 8

    def __post_init__(self) -> None:
        check_settings(self, "objective.score")
        require(self.steps >= 1, f"objective.score.steps must be at least 1, not {self.steps}")

    def init(self, family: SemiImplicit, draws: Draws) -> BankState:
        single = family.context(1) is None
        require(single, "objective.score=bank keeps outputs of one posterior, not one per datum: use fresh")
        z_J, _ = family.push(draws.outer)
        return Bank(self.steps).init(_look(family, z_J, family.mix_each(draws.outer.eps), draws), len(draws.inner_eps))

    def estimate(self, state: BankState, family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        own_mixed_J = family.mix_each(draws.outer.eps)
        everything = jnp.arange(len(z_J))

        def log_q(z_J: Array) -> tuple[Array, BankState]:
            look = _look(family, z_J, own_mixed_J, draws)
            tracked, pushed = Bank(self.steps).observe(state, look, everything)
            return mix_own(tracked.y_S, look.own_J, 1 / (tracked.effective_S + 1)), pushed

        log_q_J, pull_back, pushed = jax.vjp(log_q, z_J, has_aux=True)
        return Scored(pull_back(jnp.ones_like(log_q_J))[0], pushed, log_q_J, jnp.ones(()))


def _look(family: SemiImplicit, z_J: Array, own_mixed_J: Array, draws: Draws) -> LogRatios:
    """A look with p = 1, so that its ratios are densities of q."""
    log_mean_J, mixed_K = log_mean_pairs(family, z_J, draws.inner_eps, draws.kept)
    own_J = jax.vmap(family.conditional.log_prob)(own_mixed_J, z_J)
    return LogRatios(family, z_J, mixed_K, draws.kept, log_mean_J, own_J, jnp.zeros_like(own_J))
