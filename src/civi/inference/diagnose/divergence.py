"""Bounds on the negative ELBO from many inner samples, with the same estimator for every solver."""

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
    """Estimates of E_q[log q - log p] with their Monte Carlo standard errors.

    In expectation, `upper` (with the own term) is above the true value and `lower` (plain mean) is below it. For a
    normalised target the true value is KL(q || p), otherwise it is the negative ELBO.
    """

    upper: float
    upper_se: float
    lower: float
    lower_se: float


class WeightedDraws(NamedTuple):
    """Draws z of q with the log densities that their importance weights need, as JAX or NumPy arrays.

    log_p is log p(x, z). In expectation, log_q (with the own term) is an upper bound on log q(z) and log_q_plain
    (plain mean) is a lower bound. log_q_fewer is log_q from a twentieth of the inner samples, where it is known.
    """

    z: Any
    log_p: Any
    log_q: Any
    log_q_plain: Any
    log_q_fewer: Any = None


def with_own(log_mean: np.ndarray, own: np.ndarray, inner: int) -> np.ndarray:
    """The safe mean log[(inner exp(log_mean) + exp(own)) / (inner + 1)] of NumPy arrays (see `mix_own`)."""
    return np.logaddexp(np.log(inner) + log_mean, own) - np.log(inner + 1)


def neg_elbo_bounds(
    family: SemiImplicit, target: Target, key: PRNGKeyArray, outer: int = OUTER, inner: int = INNER
) -> Bounds:
    """Upper and lower bound on the negative ELBO, computed in chunks of bounded memory.

    Args:
        family: the approximation q.
        target: the target, in the coordinates of the family.
        key: random key.
        outer: number of draws of q.
        inner: number of inner samples, drawn afresh for every chunk of CHUNK draws.

    Example:
        >>> import civi, jax
        >>> family = civi.Architecture(hidden=(8,)).init(2, jax.random.key(0))
        >>> target = civi.LogDensity(lambda z: -0.5 * (z**2).sum(), 2)
        >>> bounds = civi.neg_elbo_bounds(family, target, jax.random.key(1), outer=100, inner=500)
        >>> bounds.lower <= bounds.upper
        True
    """
    chunk = min(CHUNK, outer)
    keys = jax.random.split(key, -(-outer // chunk))
    parts = [log_ratio_bounds(family, target, k, chunk, inner) for k in keys]
    upper, lower = (jnp.concatenate(side)[:outer] for side in zip(*parts, strict=True))
    return Bounds(*mean_and_se(upper), *mean_and_se(lower))


def log_ratio_bounds(
    family: SemiImplicit, target: Target, key: PRNGKeyArray, outer: int, inner: int
) -> tuple[Array, Array]:
    """log q(z_j) - log p(x, z_j) for `outer` draws of z, with the own term and by the plain mean."""
    drawn = weighted_draws(family, target, key, outer, inner)
    return drawn.log_q - drawn.log_p, drawn.log_q_plain - drawn.log_p


@eqx.filter_jit
def weighted_draws(family: SemiImplicit, target: Target, key: PRNGKeyArray, outer: int, inner: int) -> WeightedDraws:
    """Draw from q and compute log p(x, z) and both bounds on log q(z).

    Args:
        family: the approximation q.
        target: the target, in the coordinates of the family.
        key: random key.
        outer: number of draws.
        inner: number of inner samples, shared by all draws and both bounds.
    """
    outer_key, inner_key = jax.random.split(key)
    z_J, own_J = family.push(family.draw_outer(outer_key, outer))
    log_p_J = jax.lax.map(target.log_prob, z_J, batch_size=min(CHUNK, outer))
    plain_J = log_density(family, z_J, inner_key, inner)
    return WeightedDraws(z_J, log_p_J, mix_own(plain_J, own_J, jnp.asarray(1 / (inner + 1))), plain_J)


@eqx.filter_jit
def log_q(family: SemiImplicit, target: Target, z_J: Float[Array, "J D"], inner: int = 10_000) -> Float[Array, " J"]:
    """log q(z) by the plain mean over `inner` inner samples; z is in the target's own coordinates, without a frame."""
    if not isinstance(target, Framed):
        return log_density(family, z_J, jax.random.key(1), inner, block=500)
    w_J = target.frame.inward(z_J)
    return log_q(family, target.target, w_J, inner) - target.frame.log_volume(w_J)


def mean_and_se(values: Float[Array | np.ndarray, " N"]) -> tuple[float, float]:
    """The mean and its standard error.

    They are computed in double precision, because the squares of diverged values overflow in single precision. If a
    value is infinite, the standard error is NaN.
    """
    values = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
