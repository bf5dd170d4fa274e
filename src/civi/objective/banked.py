"""Score of q with a bank: this step's inner samples over a density that also averages those of the last steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.errors import require
from civi.estimate import Draws, LogRatios, Scored, mix_own
from civi.estimate.log_ratio import log_mean_pairs
from civi.estimate.score import with_slope
from civi.family import SemiImplicit
from civi.settings import check_settings, self_checking
from civi.tracker.bank import Bank, BankState


@self_checking
@dataclass(frozen=True)
class Banked:
    """grad_z g(z_j) / y(z_j), where y averages the (steps + 1) K2 mixing outputs of this and the last steps.

    g is the mean over this step's inner samples (numerators=fresh) or y itself (numerators=all), both with the own term
    of weight 1/((steps + 1) K2 + 1). Past mixing outputs are those of past parameters: as denominators they are nearly
    right, but as numerators they pull z towards where q was, so that q lags behind itself.
    """

    steps: Annotated[int, "Number of past steps whose mixing outputs are kept."] = 8
    numerators: Annotated[
        Literal["fresh", "all"], "Whose conditional scores are averaged: this step's inner samples, or all of the bank."
    ] = "fresh"

    def __post_init__(self) -> None:
        check_settings(self, "objective.score")
        require(self.steps >= 1, f"objective.score.steps must be at least 1, not {self.steps}")

    def init(self, family: SemiImplicit, draws: Draws) -> BankState:
        single = family.context(1) is None
        require(single, "objective.score=bank keeps outputs of one posterior, not one per datum: use fresh")
        z_J, _ = family.push(draws.outer)
        return Bank(self.steps).init(_look(family, z_J, draws), len(draws.inner_eps))

    def estimate(self, state: BankState, family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        everything, bank = jnp.arange(len(z_J)), Bank(self.steps)
        look = _look(family, z_J, draws)
        tracked, pushed = bank.observe(state, look, everything)
        own_weight = 1 / (tracked.effective_S + 1)
        log_y_J = mix_own(tracked.y_S, look.own_J, own_weight)

        def log_g(z_J: Array) -> Array:
            at = _look(family, z_J, draws)
            log_mean_J = at.fresh_J if self.numerators == "fresh" else bank.observe(state, at, everything)[0].y_S
            return mix_own(log_mean_J, at.own_J, own_weight)

        log_g_J, slope_J = with_slope(log_g, z_J)
        return Scored(jnp.exp(log_g_J - log_y_J)[:, None] * slope_J, pushed, log_y_J, jnp.ones(()))


def _look(family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> LogRatios:
    """A look at any z_J with p = 1, so that its ratios are densities of q."""
    log_mean_J, mixed_K = log_mean_pairs(family, z_J, draws.inner_eps, draws.kept)
    own_J = jax.vmap(family.conditional.log_prob)(family.mix_each(draws.outer.eps), z_J)
    return LogRatios(family, z_J, mixed_K, draws.kept, log_mean_J, own_J, jnp.zeros_like(own_J))
