"""The path gradient of the KL divergence: grad neg_elbo = E[(grad_z log q(z) - grad_z log p(x, z)) dz/dtheta]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxtyping import Array, Float

from civi.estimate import Draws, Score
from civi.estimate.fresh import Fresh
from civi.estimate.proposal import Proposal
from civi.estimate.regression import Regression
from civi.estimate.reverse import Hmc
from civi.family import SemiImplicit
from civi.objective.banked import Banked
from civi.objective.base import LogProbEach, Prepared
from civi.settings import Choice, check_settings, self_checking

SCORES: dict[str, type] = {
    "fresh": Fresh,
    "hmc": Hmc,
    "proposal": Proposal,
    "regression": Regression,
    "bank": Banked,
}


@self_checking
@dataclass(frozen=True)
class PathGradient:
    """mean_j [<s_q(z_j), z_j> - log p(x, z_j)] with the scores s_q of q held constant.

    The gradient of log q(z) with respect to theta at fixed z has mean 0 and is left out. Methods differ in s_q alone.
    """

    score: Annotated[Score, Choice(SCORES), "How the score of q is estimated."] = field(default_factory=Fresh)
    trains_decoder = True

    def __post_init__(self) -> None:
        check_settings(self, "objective")

    def init(self, family: SemiImplicit, draws: Draws) -> Any:
        return self.score.init(family, draws)

    def prepare(self, player: Any, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Prepared:
        z_J, _ = family.push(draws.outer)
        scored = self.score.estimate(player, family, z_J, draws)
        neg_elbo = None if scored.log_q_J is None else (scored.log_q_J - log_prob_each(z_J)).mean()
        return Prepared(scored.score_J, scored.state, neg_elbo, scored.acceptance)

    def surrogate(
        self, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws, aid: Float[Array, "J D"]
    ) -> Float[Array, ""]:
        z_J, _ = family.push(draws.outer)
        return ((aid * z_J).sum(1) - log_prob_each(z_J)).mean()
