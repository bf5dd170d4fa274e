"""Bounds on the negative ELBO with a large inner sample, the same estimator for every solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.estimate import log_density, mix_own
from civi.family import SemiImplicit
from civi.problem.target import Framed, Target

OUTER, INNER, CHUNK = 10_000, 20_000, 500


class Bounds(NamedTuple):
    """Estimates of E_q[log q - log p] that are in expectation above (own term) and below (plain mean) the truth.

    For a normalised target this is KL(q || p), otherwise the negative ELBO.
    """

    upper: float
    upper_se: float
    lower: float
    lower_se: float


class Weighed(NamedTuple):
    """Draws z, log p(x, z), and log q(z) with the own term (from above, in expectation) and by the plain mean.

    JAX or NumPy arrays.
    """

    z: Any
    log_p: Any
    log_q: Any
    log_q_plain: Any


def neg_elbo_bounds(
    family: SemiImplicit, target: Target, key: PRNGKeyArray, outer: int = OUTER, inner: int = INNER
) -> Bounds:
    """Upper and lower bound from `outer` draws, each with its own `inner` samples in blocks of bounded memory."""
    chunk = min(CHUNK, outer)
    keys = jax.random.split(key, -(-outer // chunk))
    parts = [log_ratio_bounds(family, target, k, chunk, inner) for k in keys]
    upper, lower = (jnp.concatenate(side)[:outer] for side in zip(*parts, strict=True))
    return Bounds(*mean_and_se(upper), *mean_and_se(lower))


def log_ratio_bounds(
    family: SemiImplicit, target: Target, key: PRNGKeyArray, outer: int, inner: int
) -> tuple[Array, Array]:
    """log q(z_j) - log p(x, z_j) for `outer` draws of z: with the own term, and by the plain mean."""
    drawn = weigh(family, target, key, outer, inner)
    return drawn.log_q - drawn.log_p, drawn.log_q_plain - drawn.log_p


@eqx.filter_jit
def weigh(family: SemiImplicit, target: Target, key: PRNGKeyArray, outer: int, inner: int) -> Weighed:
    """`outer` draws of q with log p(x, z) and both bounds on log q(z), from the same `inner` samples."""
    outer_key, inner_key = jax.random.split(key)
    z_J, own_J = family.push(family.draw_outer(outer_key, outer))
    log_p_J = jax.lax.map(target.log_prob, z_J, batch_size=min(CHUNK, outer))
    plain_J = log_density(family, z_J, inner_key, inner)
    return Weighed(z_J, log_p_J, mix_own(plain_J, own_J, jnp.asarray(1 / (inner + 1))), plain_J)


@eqx.filter_jit
def log_q(family: SemiImplicit, target: Target, z_J: Float[Array, "J D"], inner: int = 10_000) -> Float[Array, " J"]:
    """log q(z) in the target's own coordinates, by the plain mean over `inner` samples in blocks."""
    if not isinstance(target, Framed):
        return log_density(family, z_J, jax.random.key(1), inner, block=500)
    return log_q(family, target.target, target.frame.inward(z_J), inner) - target.frame.log_volume


def mean_and_se(values: Float[Array | np.ndarray, " N"]) -> tuple[float, float]:
    """The mean and its standard error, in double precision, as squares of what diverged are too large for single.

    Infinite values have no standard error: it is NaN.
    """
    values = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
