"""Kernel path gradient (KPG): the difference of the scores is replaced by its kernel mean over a second batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.estimate import Draws
from civi.estimate.kernel import Kernel
from civi.family import SemiImplicit
from civi.objective.base import LogProbEach, Prepared, stein_terms
from civi.settings import check_settings, self_checking


@self_checking
@dataclass(frozen=True)
class KernelPath:
    """mean_j <mean_i k(z_j, z'_i) [grad_z log q(z'_i | eps'_i) - s_p(z'_i)], z_j> with all but the last z_j constant.

    E[grad_z log q(z | eps) | z] is the score of q, so the kernel mean is an unbiased estimate of the gradient of the KL
    in the kernel's space of functions. No inner samples are needed.
    """

    kernel: Annotated[Kernel, "The kernel between the two batches."] = field(default_factory=Kernel)
    trains_decoder = False

    def __post_init__(self) -> None:
        check_settings(self, "objective")

    def init(self, family: SemiImplicit, draws: Draws) -> tuple[()]:
        return ()

    def prepare(self, player: tuple[()], family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Prepared:
        z_J, _ = family.push(draws.outer)
        other_I, stein_I = stein_terms(family, log_prob_each, family.draw_outer(draws.key, len(z_J)))
        direction_J = -self.kernel(z_J, other_I) @ stein_I / len(other_I)
        return Prepared(direction_J, (), None, jnp.ones(()))

    def surrogate(
        self, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws, aid: Float[Array, "J D"]
    ) -> Float[Array, ""]:
        z_J: Array = family.push(draws.outer)[0]
        return (aid * z_J).sum(1).mean()
