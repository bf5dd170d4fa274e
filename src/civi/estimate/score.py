"""The protocol `Score`: an estimate of grad_z log q(z_j) for the path gradient, with a state if it needs one.

fresh         fresh inner samples                                     BSIVI   civi.estimate.fresh
hmc           draws of q(eps | z) by HMC                               UIVI    civi.estimate.reverse
proposal      importance sampling from a learned reverse model         AISIVI  civi.estimate.proposal
regression    a network fitted to the scores of the conditional        DIVI    civi.estimate.regression
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import SettingError
from civi.family import GaussianNoise, Outer, SemiImplicit


class Draws(NamedTuple):
    """The randomness of a step: outer samples, inner samples of which the first `kept` are used, and a key for more."""

    outer: Outer
    inner_eps: Float[Array, "K E"]
    kept: Int[Array, ""]
    key: PRNGKeyArray


class Scored(NamedTuple):
    """Scores of q at the outer samples, the new state, and by-products.

    Attributes:
        score_J: estimates of grad_z log q(z_j).
        state: the state for the next step.
        log_q_J: estimates of log q(z_j), if the method has them.
        acceptance: the acceptance rate of the HMC chains; 1 for methods without HMC.
    """

    score_J: Float[Array, "J D"]
    state: Any
    log_q_J: Float[Array, " J"] | None
    acceptance: Float[Array, ""]


@runtime_checkable
class Score(Protocol):
    """Implemented by the classes in `SCORES` of `civi.objective.path`."""

    def init(self, family: SemiImplicit, draws: Draws) -> Any:
        """The state before the first step; () if the method has none."""
        ...

    def estimate(self, state: Any, family: SemiImplicit, z_J: Float[Array, "J D"], draws: Draws) -> Scored:
        """The scores at this step's outer samples.

        Args:
            state: the state after the last step. A method that learns improves it before it is used.
            family: the family at theta_t; nothing here is differentiated with respect to theta.
            z_J: the outer samples.
            draws: the noise that made them, and further randomness.
        """
        ...


def with_slope(
    log_q: Callable[[Float[Array, "J D"]], Float[Array, " J"]], z_J: Float[Array, "J D"]
) -> tuple[Float[Array, " J"], Float[Array, "J D"]]:
    """log q(z_j) and grad_z log q(z_j), if log_q evaluates every row of its argument independently."""
    log_q_J, pull_back = jax.vjp(log_q, z_J)
    return log_q_J, pull_back(jnp.ones_like(log_q_J))[0]


def continuous_noise(family: SemiImplicit) -> GaussianNoise:
    """The noise of a family, for methods that move it or draw it from a density; an error for particles."""
    if not isinstance(family.noise, GaussianNoise):
        raise SettingError("this method needs continuous noise: set family.mixing=network, or choose another solver")
    return family.noise


def conditions(family: SemiImplicit, z_J: Float[Array, "J D"]) -> Float[Array, "J C"]:
    """What a network that stands for a function of z is given: z_j, and the features of its datum if amortised."""
    context = family.context(len(z_J))
    return z_J if context is None else jnp.concatenate([z_J, context], axis=1)
