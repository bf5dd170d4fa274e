"""The importance-weighted bound on -log p(x) from several draws of z for every datum (Burda et al. 2016)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float


def importance_weighted(log_y_J: Float[Array, " J"], data: int) -> tuple[Float[Array, " J"], Float[Array, ""]]:
    """mean_n -log mean_s w_ns for the weights w = 1 / y, and every weight in units of the mean of its datum's.

    The derivative by log y_ns is w_ns / sum_s w_ns, so that the gradient is that of the ELBO with these weights. With
    the safe inner mean E[w] = p(x), as eps_j and the eps_k are exchangeable: in expectation a bound from above.
    """
    neg_log_y_NS = -log_y_J.reshape(data, -1)
    draws = neg_log_y_NS.shape[1]
    importance_NS = draws * jax.nn.softmax(neg_log_y_NS, axis=1)
    return importance_NS.reshape(-1), (jnp.log(draws) - logsumexp(neg_log_y_NS, axis=1)).mean()
