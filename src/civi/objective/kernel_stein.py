"""Kernel Stein discrepancy (KSIVI, Cheng et al. 2024): no inner samples and no second player."""

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
class KernelStein:
    """mean_ij k(z_i, z'_j) <f_i, f'_j> with f = s_p(z) - grad_z log q(z | eps), over two independent batches.

    The discrepancy is that of the scores of p and q in the kernel's space. All of it is differentiated: f through the
    target's second derivatives, and the kernel with its median width.
    """

    kernel: Annotated[Kernel, "The kernel between the two batches."] = field(default_factory=Kernel)
    trains_decoder = False

    def __post_init__(self) -> None:
        check_settings(self, "objective")

    def init(self, family: SemiImplicit, draws: Draws) -> tuple[()]:
        return ()

    def prepare(self, player: tuple[()], family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Prepared:
        return Prepared((), (), None, jnp.ones(()))

    def surrogate(
        self, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws, aid: tuple[()]
    ) -> Float[Array, ""]:
        z_I, stein_I = stein_terms(family, log_prob_each, draws.outer)
        z_J, stein_J = stein_terms(family, log_prob_each, family.draw_outer(draws.key, len(z_I)))
        weighted_I: Array = self.kernel(z_I, z_J) @ stein_J
        return (stein_I * weighted_I).sum() / (len(z_I) * len(z_J))
