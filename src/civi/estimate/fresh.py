"""Score of q from fresh inner samples (BSIVI, Pielok et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.estimate.log_ratio import log_mean_pairs, mix_own
from civi.estimate.score import Draws, Scored, with_slope
from civi.family import SemiImplicit
from civi.settings import check_settings, self_checking

Own = Annotated[bool, "Whether the noise that made an outer sample is one of its inner samples."]


@self_checking
@dataclass(frozen=True)
class Fresh:
    """grad_z log [1/(K+1) sum_{k=0..K} q(z_j | eps_k)] with eps_0 the noise of z_j itself; without it, over k = 1..K.

    Many inner samples are processed in blocks whose logarithms are merged, so the memory does not grow with K.
    """

    own: Own = True

    def __post_init__(self) -> None:
        check_settings(self, "objective.score")

    def init(self, family: SemiImplicit, draws: Draws) -> tuple[()]:
        return ()

    def estimate(self, state: tuple[()], family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        own_mixed_J = family.mix_each(draws.outer.eps)

        def log_q(z_J: Array) -> Array:
            log_mean_J, _ = log_mean_pairs(family, z_J, draws.inner_eps, draws.kept)
            if not self.own:
                return log_mean_J
            own_J = jax.vmap(family.conditional.log_prob)(own_mixed_J, z_J)
            return mix_own(log_mean_J, own_J, 1 / (draws.kept + 1.0))

        log_q_J, score_J = with_slope(log_q, z_J)
        return Scored(score_J, (), log_q_J, jnp.ones(()))
