"""HMC on the reverse conditional q(eps | z) ~ q(z | eps) q(eps), for the entropy gradient of UIVI."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.family import SemiImplicit


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
    inverse_mass = jnp.full(start_J.shape[1], family.noise.scale**2)

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
