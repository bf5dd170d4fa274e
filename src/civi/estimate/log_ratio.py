"""Log ratios log g_j(theta) = log E_k q(z_j | eps_k) - log p(x, z_j), estimated from inner samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.family import Outer, SemiImplicit
from civi.parallel.mesh import shard

FLOATS = 2**22


@runtime_checkable
class Look(Protocol):
    """One look: an estimate of the inner mean g_j of every entry (log g_j if log_scale) from `kept` inner samples."""

    @property
    def fresh_J(self) -> Float[Array, " J"]:
        """The mean over the inner samples of this look, or its logarithm."""
        ...

    @property
    def kept(self) -> Int[Array, ""]:
        """Number of inner samples."""
        ...

    @property
    def log_scale(self) -> bool:
        """Whether the mean is stored as a logarithm."""
        ...


class LogRatios(NamedTuple):
    """A look at J outer samples with K fresh inner samples, in log space; fresh_J is log g_j from the plain mean."""

    family: SemiImplicit
    z_J: Float[Array, "J D"]
    mixed_K: Float[Array, "*J K P"]
    kept: Int[Array, ""]
    fresh_J: Float[Array, " J"]
    own_J: Float[Array, " J"]
    log_p_J: Float[Array, " J"]

    @property
    def log_scale(self) -> bool:
        """Always true."""
        return True


def log_ratios(
    family: SemiImplicit,
    log_prob_each: Callable[[Float[Array, "J D"]], Float[Array, " J"]],
    outer: Outer,
    inner_eps: Float[Array, "K E"],
    kept: Int[Array, ""],
) -> LogRatios:
    """The plain inner mean (Oracle_g) and the own term, both divided by p(x, z_j), in log space.

    Args:
        family: the semi-implicit family.
        log_prob_each: maps z_J to log p(x, z_j).
        outer: noise of the outer samples.
        inner_eps: noise of the inner samples.
        kept: only the first `kept` inner samples enter the mean.
    """
    z_J, own_J = family.push(shard(outer, "outer"))
    log_p_J = log_prob_each(z_J)
    log_mean_J, mixed_K = log_mean_pairs(family, z_J, inner_eps, kept)
    return LogRatios(family, z_J, mixed_K, kept, log_mean_J - log_p_J, own_J - log_p_J, log_p_J)


def log_mean_pairs(
    family: SemiImplicit, z_J: Float[Array, "J D"], inner_eps: Float[Array, "K E"], kept: Int[Array, ""]
) -> tuple[Float[Array, " J"], Float[Array, "*J K P"]]:
    """log mean_k q(z_j | eps_k) over the first `kept` inner samples, and the mixing outputs.

    If the pairs exceed FLOATS floats, process blocks of inner samples and recompute each in the backward pass.
    """
    inner, block = len(inner_eps), _block(family, z_J)
    if inner <= block:
        mixed_K = family.mix(shard(inner_eps, "inner"))
        return log_mean_exp(family.log_prob_pairs(mixed_K, z_J), kept), mixed_K
    blocks = -(-inner // block)
    padded = jnp.pad(inner_eps, ((0, blocks * block - inner), (0, 0))).reshape(blocks, block, -1)

    @jax.checkpoint
    def add_block(log_sum_J: Array, part: tuple[Array, Array]) -> tuple[Array, Array]:
        first, eps = part
        mixed, counted = family.mix(shard(eps, "inner")), first + jnp.arange(block) < kept
        log_sum = logsumexp(family.log_prob_pairs(mixed, z_J), axis=1, where=counted)
        return jnp.logaddexp(log_sum_J, log_sum), mixed

    start = jnp.full(len(z_J), -jnp.inf)
    log_sum_J, mixed = jax.lax.scan(add_block, start, (block * jnp.arange(blocks), padded))
    mixed_K = jnp.moveaxis(mixed, 0, -3).reshape(*mixed.shape[1:-2], -1, mixed.shape[-1])[..., :inner, :]
    return log_sum_J - jnp.log(kept), mixed_K


def log_sum_past(
    mixed_K: Float[Array, "*J K P"],
    counted_K: Bool[Array, " K"],
    ratios: LogRatios,
) -> Float[Array, " J"]:
    """log sum_k q(z_j | eps_k) over past mixing outputs, at this look's z_j, without a gradient.

    If the pairs exceed FLOATS floats, process blocks of inner samples.

    Args:
        mixed_K: mixing outputs of past steps.
        counted_K: which of them enter the sum.
        ratios: the look that has z_j and the own terms.
    """
    family = ratios.family
    *lead, inner, outputs = mixed_K.shape
    block, own_J = _block(family, ratios.z_J), ratios.own_J + ratios.log_p_J
    if inner <= block:
        return family.log_sum_pairs(mixed_K, ratios.z_J, counted_K, own_J)
    blocks = -(-inner // block)
    rest = blocks * block - inner
    mixed = jnp.pad(mixed_K, [(0, 0)] * len(lead) + [(0, rest), (0, 0)]).reshape(*lead, blocks, block, outputs)
    counted = jnp.pad(counted_K, (0, rest)).reshape(blocks, block)

    def add_block(log_sum_J: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        return jnp.logaddexp(log_sum_J, family.log_sum_pairs(part[0], ratios.z_J, part[1], own_J)), None

    return jax.lax.scan(add_block, jnp.full_like(own_J, -jnp.inf), (jnp.moveaxis(mixed, -3, 0), counted))[0]


def _block(family: SemiImplicit, z_J: Float[Array, "J D"]) -> int:
    """Number of inner samples per block, such that all pairs with the outer samples fit into FLOATS floats."""
    return max(1, FLOATS // (len(z_J) * family.floats_per_pair))


def log_mean_exp(log_values_JK: Float[Array, "J K"], kept: Int[Array, ""]) -> Float[Array, " J"]:
    """log of the mean over the first `kept` columns."""
    counted = jnp.arange(log_values_JK.shape[1]) < kept
    return logsumexp(log_values_JK, axis=1, where=counted) - jnp.log(kept)


def mix_own(
    log_mean_J: Float[Array, " J"], own_J: Float[Array, " J"], own_weight: Float[Array, "*J"]
) -> Float[Array, " J"]:
    """log[w q(z_j | eps_j) + (1 - w) mean_j]: the logarithm of the safe mean.

    For w = 1/(K + 1) it is an upper bound on log q(z_j) in expectation over eps_j (Yin and Zhou 2018). The plain mean
    (w = 0) is a lower bound by Jensen's inequality, which training can drive to minus infinity.

    Args:
        log_mean_J: log of the plain mean.
        own_J: log of the own term.
        own_weight: the weight w of the own term.
    """
    weight = jax.lax.stop_gradient(own_weight)
    return jnp.logaddexp(jnp.log(weight) + own_J, jnp.log1p(-weight) + log_mean_J)


def log_density(
    family: SemiImplicit, z_J: Float[Array, "J D"], key: PRNGKeyArray, inner: int, block: int = 2000
) -> Float[Array, " J"]:
    """log of the plain mean of q(z_j | eps_k) over fresh inner samples.

    Args:
        family: the semi-implicit family.
        z_J: points at which the density is estimated.
        key: draws the inner samples.
        inner: number of inner samples.
        block: inner samples that are processed at a time; the memory is O(J block).
    """
    blocks = -(-inner // block)

    def add_block(log_sum_J: Array, index: Array) -> tuple[Array, None]:
        mixed_K = family.mix(family.noise.sample(jax.random.fold_in(key, index), block))
        pairs_JK = family.log_prob_pairs(mixed_K, z_J)
        counted = jnp.arange(block) < inner - index * block
        return jnp.logaddexp(log_sum_J, logsumexp(pairs_JK, axis=1, where=counted)), None

    start = jnp.full(len(z_J), -jnp.inf)
    log_sum_J, _ = jax.lax.scan(add_block, start, jnp.arange(blocks))
    return log_sum_J - jnp.log(inner)
