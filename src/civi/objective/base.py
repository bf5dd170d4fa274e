"""The protocol `Pathwise`: an objective whose gradient flows through z_j(theta), perhaps with a second player.

init        the state of the second player (a network and its optimiser, chains, past samples), or ()
prepare     before the gradient: improve the second player at theta_t, and compute what is constant in the gradient
surrogate   a scalar whose gradient with respect to theta is the gradient of the step
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Float

from civi.estimate import Draws
from civi.family import Outer, SemiImplicit

LogProbEach = Callable[[Float[Array, "J D"]], Float[Array, " J"]]


class Prepared(NamedTuple):
    """The constants of a surrogate, the second player's new state, and diagnostics.

    Attributes:
        aid: what the surrogate needs, such as scores of q or a trained network.
        player: the second player's state for the next step.
        neg_elbo: the negative ELBO of the step, if the objective has an estimate of it.
        acceptance: the acceptance rate of HMC chains; 1 for methods without HMC.
    """

    aid: Any
    player: Any
    neg_elbo: Float[Array, ""] | None
    acceptance: Float[Array, ""]


@runtime_checkable
class Pathwise(Protocol):
    """Implemented by the classes in `PATHWISE`."""

    @property
    def trains_decoder(self) -> bool:
        """Whether the surrogate has a gradient for the decoder of an autoencoder."""
        ...

    def init(self, family: SemiImplicit, draws: Draws) -> Any:
        """The second player's state before the first step.

        Args:
            family: the family at theta_1.
            draws: randomness of the kind and shapes that a step has.
        """
        ...

    def prepare(self, player: Any, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws) -> Prepared:
        """Improve the second player, and compute the constants of the surrogate at theta_t.

        Args:
            player: the second player's state.
            family: the family at theta_t.
            log_prob_each: maps z_J to log p(x, z_j), on this step's batch of data.
            draws: randomness of the step.
        """
        ...

    def surrogate(self, family: SemiImplicit, log_prob_each: LogProbEach, draws: Draws, aid: Any) -> Float[Array, ""]:
        """A scalar whose gradient with respect to theta is the gradient of the step.

        Args:
            family: the family at theta, differentiable.
            log_prob_each: maps z_J to log p(x, z_j); differentiable in the parameters of a decoder.
            draws: randomness of the step.
            aid: the constants that `prepare` computed.
        """
        ...


def target_scores(log_prob_each: LogProbEach, z_J: Float[Array, "J D"]) -> Float[Array, "J D"]:
    """s_p(z_j) = grad_z log p(x, z_j)."""
    return jax.grad(lambda z_J: log_prob_each(z_J).sum())(z_J)


def stein_terms(
    family: SemiImplicit, log_prob_each: LogProbEach, outer: Outer
) -> tuple[Float[Array, "J D"], Float[Array, "J D"]]:
    """z_j and f_j = s_p(z_j) - grad_z log q(z_j | eps_j), whose mean given z_j is the score of p minus that of q."""
    z_J, score_J = family.push_scored(outer)
    return z_J, target_scores(log_prob_each, z_J) - score_J
