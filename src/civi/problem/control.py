"""A control variate for the gradient of a trained frame, z = location + F L T(w).

The gradient of -log p with respect to the frame is a mean of products such as -(F^T s_p)_i y_k for the entry L_ik, with
s_p the score of the target. Each product is noisy even where q is right, and about D^2 / 2 parameters move with this
noise. The same products with the score of q in place of that of p have a mean that is known exactly, because
integration by parts gives E_q[s_q,i(w) f(w)] = -E_q[df/dw_i]. Their difference has the same mean as before, and nearly
no noise where q is close to p (the idea of Roeder et al. 2017, here for the coordinates of the target). In up to FEW
dimensions the frame has few parameters, the mixing network learns the shape, and there is no control variate.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.estimate import LogRatios, log_mean_exp, with_slope
from civi.family import Outer

FEW = 20


@runtime_checkable
class TrainedFrame(Protocol):
    """A frame with trained arrays."""

    def control(self, w_J: Float[Array, "J D"], score_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """A function of the trained arrays whose gradient has mean 0 if `score_J` are scores of q at draws w_J."""
        ...


def steadied(ratios: LogRatios, outer: Outer, frame: TrainedFrame) -> LogRatios:
    """The same ratios, whose gradient with respect to the frame has less noise.

    Args:
        ratios: a look at the outer samples.
        outer: their noise.
        frame: the trained frame.
    """
    score_J = jax.lax.stop_gradient(score_of_mean(ratios, outer))
    control_J = frame.control(jax.lax.stop_gradient(ratios.z_J), score_J)
    zero_J = control_J - jax.lax.stop_gradient(control_J)
    return ratios._replace(
        fresh_J=ratios.fresh_J + zero_J, own_J=ratios.own_J + zero_J, log_p_J=ratios.log_p_J - zero_J
    )


def score_of_mean(ratios: LogRatios, outer: Outer) -> Float[Array, "J D"]:
    """grad_z log [1/(K+1) sum_{k=0..K} q(z_j | eps_k)] with eps_0 the noise of z_j itself.

    The K + 1 noise vectors are exchangeable. Given all of them, but not which one generated z_j, z_j is a draw of this
    mean, so E[s_i f(z)] = -E[df/dz_i] holds exactly for any K.
    """
    family, mixed_K = ratios.family, ratios.mixed_K
    own_J = ratios.own_J + ratios.log_p_J
    _, own_score_J = family.push_scored(outer)
    log_mean_J, slope_J = with_slope(
        lambda z_J: log_mean_exp(family.log_prob_pairs(mixed_K, z_J), ratios.kept), ratios.z_J
    )
    own_share_J = jax.nn.sigmoid(own_J - log_mean_J - jnp.log(ratios.kept))[:, None]
    return own_share_J * own_score_J + (1 - own_share_J) * slope_J
