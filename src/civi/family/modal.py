"""A mixing network with separate modes: a part of the noise chooses the mode, in which the network gives the shape."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array, Float, Int

from civi.family.mixing import MixingNetwork


class ModalNetwork(eqx.Module):
    """network(eps) + offset_m with m = #{thresholds below eps_1}: mode m has the probability of its interval of eps_1.

    A continuous network has to cross the empty region between two modes, where log p is very low. The thresholds have
    the gradient 0 and are set from outside.
    """

    network: MixingNetwork
    offset_M: Float[Array, "M P"]
    threshold: Float[Array, " M-1"]

    def mode(self, eps: Float[Array, "*N E"]) -> Int[Array, "*N"]:
        """The number of the mode that each noise vector belongs to."""
        return (eps[..., :1] > self.threshold).sum(-1)

    def __call__(self, eps: Float[Array, "*N E"]) -> Float[Array, "*N P"]:
        """Parameters of the conditional for every noise vector."""
        return self.network(eps) + self.offset_M[self.mode(eps)]


def thresholds(share_M: Float[Array | np.ndarray, " M"], scale: float) -> Any:
    """The quantiles of N(0, scale^2) between which modes have these probabilities, in NumPy for NumPy arrays."""
    if isinstance(share_M, np.ndarray):
        return scale * scipy.stats.norm.ppf(np.cumsum(share_M)[:-1])
    return scale * jax.scipy.stats.norm.ppf(jnp.cumsum(share_M)[:-1])
