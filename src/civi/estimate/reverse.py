"""HMC on the reverse conditional q(eps | z) ~ q(z | eps) q(eps), for the entropy gradient of UIVI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import require
from civi.estimate.score import Draws, Scored, continuous_noise
from civi.family import SemiImplicit
from civi.settings import check_settings, self_checking


@self_checking
@dataclass(frozen=True)
class Hmc:
    """grad_z log q(z_j) = E_{q(eps | z_j)}[grad_z log q(z_j | eps)], with chains whose step size is adapted."""

    burn_in: Annotated[int, "Burn-in HMC transitions per step, which are discarded."] = 5
    kept: Annotated[int, "HMC transitions per step after burn-in, whose draws are used."] = 5
    leapfrog: Annotated[int, "Leapfrog steps per HMC transition."] = 5
    acceptance: Annotated[float, "Target acceptance rate of the HMC step-size adaptation."] = 0.9
    adaptation: Annotated[float, "Adaptation rate of the logarithm of the HMC step size."] = 0.05

    def __post_init__(self) -> None:
        check_settings(self, "objective.score")
        require(self.burn_in >= 0, f"objective.score.burn_in must not be negative, not {self.burn_in}")
        require(self.kept >= 1, f"objective.score.kept must be at least 1, not {self.kept}")
        require(self.leapfrog >= 1, f"objective.score.leapfrog must be at least 1, not {self.leapfrog}")
        inside = 0 < self.acceptance < 1
        require(inside, f"objective.score.acceptance must be in (0, 1), not {self.acceptance}")

    def init(self, family: SemiImplicit, draws: Draws) -> Float[Array, ""]:
        """The logarithm of an initial HMC step size for noise of unit scale."""
        continuous_noise(family)
        return jnp.log(0.1)

    def estimate(self, state: Float[Array, ""], family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        chains = reverse_conditional(
            family,
            z_J,
            draws.outer.eps,
            jnp.exp(state),
            draws.key,
            burn_in=self.burn_in,
            kept=self.kept,
            leapfrog=self.leapfrog,
        )
        adapted = state + self.adaptation * (chains.acceptance - self.acceptance)
        return Scored(entropy_score(family, z_J, chains.eps_MJ), adapted, None, chains.acceptance)


class ReverseDraws(NamedTuple):
    """The draws of eps after burn-in for every outer sample, and the mean acceptance probability."""

    eps_MJ: Float[Array, "M J E"]
    acceptance: Float[Array, ""]


def reverse_conditional(
    family: SemiImplicit,
    z_J: Float[Array, "J D"],
    start_J: Float[Array, "J E"],
    step_size: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    burn_in: int,
    kept: int,
    leapfrog: int,
) -> ReverseDraws:
    """Draws of q(eps | z_j) by HMC, with one chain per outer sample, vectorised over them.

    A chain that starts at the eps_j that made z_j is stationary from its first draw (Titsias and Ruiz 2019).

    Args:
        family: the semi-implicit family.
        z_J: outer samples.
        start_J: initial points of the chains.
        step_size: leapfrog step size.
        key: randomness of the chains.
        burn_in: transitions that are discarded.
        kept: transitions after burn-in whose draws are returned.
        leapfrog: leapfrog steps per transition.
    """
    from blackjax.mcmc import hmc  # noqa: PLC0415 start-up time

    kernel = hmc.build_kernel()
    inverse_mass = jnp.full(start_J.shape[1], continuous_noise(family).scale ** 2)

    def chain(z: Array, start: Array, context: Any, key: PRNGKeyArray) -> tuple[Array, Array]:
        def log_prob(eps: Array) -> Array:
            return family.log_conditional(z, eps, context) + family.noise.log_prob(eps)

        def move(state: hmc.HMCState, key: PRNGKeyArray) -> tuple[hmc.HMCState, tuple[Array, Array]]:
            state, info = kernel(key, state, log_prob, step_size, inverse_mass, leapfrog)
            return state, (state.position, info.acceptance_rate)

        _, visited = jax.lax.scan(move, hmc.init(start, log_prob), jax.random.split(key, burn_in + kept))
        return visited

    eps_JM, acceptance = jax.vmap(chain)(z_J, start_J, family.context(len(z_J)), jax.random.split(key, len(z_J)))
    return ReverseDraws(jnp.moveaxis(eps_JM, 1, 0)[burn_in:], acceptance.mean())


def entropy_score(family: SemiImplicit, z_J: Float[Array, "J D"], eps_MJ: Float[Array, "M J E"]) -> Float[Array, "J D"]:
    """grad_z log q(z_j) = E_{q(eps | z_j)}[grad_z log q(z_j | eps)], estimated by the mean over reverse draws."""
    of_pair = jax.grad(family.log_conditional)
    return jax.vmap(jax.vmap(of_pair), in_axes=(None, 0, None))(z_J, eps_MJ, family.context(len(z_J))).mean(0)
