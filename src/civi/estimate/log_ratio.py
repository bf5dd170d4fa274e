"""Log ratios log g_j(theta) = log E_k q(z_j | eps_k) - log p(x, z_j), estimated from inner samples."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.family import Outer, SemiImplicit
from civi.sharding import spread
from civi.target import PairedTarget, Target, log_prob_each


class LogRatios(NamedTuple):
    """One look at J outer samples with K fresh inner samples, in log space."""

    z_J: Float[Array, "J D"]
    mixed_K: Float[Array, "*J K P"]
    kept: Int[Array, ""]
    fresh_J: Float[Array, " J"]
    own_J: Float[Array, " J"]
    log_p_J: Float[Array, " J"]


def log_ratios(
    family: SemiImplicit,
    target: Target | PairedTarget,
    outer: Outer,
    inner_eps: Float[Array, "K E"],
    kept: Int[Array, ""],
) -> LogRatios:
    """The plain mean over the first `kept` inner samples (Oracle_g) and the own term, both divided by p(x, z_j)."""
    z_J, own_J = family.push(spread(outer, "outer"))
    mixed_K = family.mix(spread(inner_eps, "inner"))
    log_p_J = log_prob_each(target, z_J)
    pairs_JK = family.log_prob_pairs(mixed_K, z_J)
    return LogRatios(z_J, mixed_K, kept, log_mean_exp(pairs_JK, kept) - log_p_J, own_J - log_p_J, log_p_J)


def log_mean_exp(log_values_JK: Float[Array, "J K"], kept: Int[Array, ""]) -> Float[Array, " J"]:
    """log of the mean over the first `kept` columns."""
    counted = jnp.arange(log_values_JK.shape[1]) < kept
    return logsumexp(log_values_JK, axis=1, where=counted) - jnp.log(kept)


def mix_own(
    log_mean_J: Float[Array, " J"], own_J: Float[Array, " J"], own_weight: Float[Array, "*J"]
) -> Float[Array, " J"]:
    """log[w q(z_j | eps_j) + (1 - w) mean_j]: the safe inner mean.

    In expectation over eps_j its logarithm is above log q(z_j) for w = 1/(K + 1) (Yin and Zhou 2018), where the
    plain mean (w = 0) is below it by Jensen's inequality and can be driven to minus infinity.
    """
    weight = jax.lax.stop_gradient(own_weight)
    return jnp.logaddexp(jnp.log(weight) + own_J, jnp.log1p(-weight) + log_mean_J)


def log_density(
    family: SemiImplicit, z_J: Float[Array, "J D"], key: PRNGKeyArray, inner: int, block: int = 2000
) -> Float[Array, " J"]:
    """log of the plain mean of q(z_j | eps_k) over `inner` samples, `block` at a time: memory O(J block)."""
    blocks = -(-inner // block)

    def add_block(log_sum_J: Array, index: Array) -> tuple[Array, None]:
        mixed_K = family.mix(family.noise.sample(jax.random.fold_in(key, index), block))
        pairs_JK = family.log_prob_pairs(mixed_K, z_J)
        counted = jnp.arange(block) < inner - index * block
        return jnp.logaddexp(log_sum_J, logsumexp(pairs_JK, axis=1, where=counted)), None

    start = jnp.full(len(z_J), -jnp.inf)
    log_sum_J, _ = jax.lax.scan(add_block, start, jnp.arange(blocks))
    return log_sum_J - jnp.log(inner)
