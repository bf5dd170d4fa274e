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
    """s_y + (g / y) (s_g - s_y) at z_j, with s_g = grad_z log g and s_y = grad_z log y (numerators=both).

    g is the mean over this step's inner samples, and y that over the (steps + 1) K2 mixing outputs of this and the last
    steps, both with the own term of weight 1/((steps + 1) K2 + 1). Past mixing outputs are those of past parameters:
    alone, they pull z towards where q was, so that q lags behind itself (numerators=all, s_y). This step's do not, but
    the ratio g / y is noisy (numerators=fresh, g s_g / y). The control variate s_y cancels most of this noise, and the
    error of the mean, (q / y - 1) (s_q - s_y), is of second order in the lag.
    """

    steps: Annotated[int, "Number of past steps whose mixing outputs are kept."] = 8
    numerators: Annotated[
        Literal["both", "fresh", "all"],
        "Whose conditional scores are averaged: this step's inner samples (fresh), all of the bank (all), or the fresh "
        "ones with those of the bank as a control variate (both).",
    ] = "both"

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
        tracked, pushed = bank.observe(state, _look(family, z_J, draws), everything)
        own_weight = 1 / (tracked.effective_S + 1)

        def log_g(z_J: Array) -> Array:
            at = _look(family, z_J, draws)
            return mix_own(at.fresh_J, at.own_J, own_weight)

        def log_y(z_J: Array) -> Array:
            at = _look(family, z_J, draws)
            return mix_own(bank.observe(state, at, everything)[0].y_S, at.own_J, own_weight)

        log_g_J, of_fresh_J = with_slope(log_g, z_J)
        log_y_J, of_all_J = with_slope(log_y, z_J)
        weight_J = jnp.exp(log_g_J - log_y_J)[:, None]
        score_J = {
            "both": of_all_J + weight_J * (of_fresh_J - of_all_J),
            "fresh": weight_J * of_fresh_J,
            "all": of_all_J,
        }[self.numerators]
        return Scored(score_J, pushed, log_y_J, jnp.ones(()))


def _look(family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> LogRatios:
    """A look at any z_J with p = 1, so that its ratios are densities of q."""
    log_mean_J, mixed_K = log_mean_pairs(family, z_J, draws.inner_eps, draws.kept)
    own_J = jax.vmap(family.conditional.log_prob)(family.mix_each(draws.outer.eps), z_J)
    return LogRatios(family, z_J, mixed_K, draws.kept, log_mean_J, own_J, jnp.zeros_like(own_J))
