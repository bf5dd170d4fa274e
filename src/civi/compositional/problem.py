"""A compositional problem: two oracles of one sample each, and their means over many samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.estimate import log_mean_exp

Theta = Any


class Draws(NamedTuple):
    """One key per sample; the first `kept` of them count (K_t), the rest is room for later steps."""

    key_K: PRNGKeyArray
    kept: Int[Array, ""]


class Problem(eqx.Module):
    """min over theta of E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ].

    inner(theta, key) is g_omega(theta) in R^n for one omega, outer(y, key) is the scalar f_nu(y) for one nu: each draws
    its own sample from the key. With log_scale the inner mean is positive and kept as a logarithm: inner returns
    log g_omega(theta), outer takes log y, and means and smoothing are done in log space (appendix A of the paper).
    """

    inner: Callable[[Theta, PRNGKeyArray], Array]
    outer: Callable[[Array, PRNGKeyArray], Array]
    log_scale: bool = eqx.field(static=True, default=False)

    def inner_mean(self, theta: Theta, draws: Draws) -> Float[Array, " J"]:
        """Oracle_g: the mean of K_t samples of g, or its logarithm."""
        value_KJ = jax.vmap(lambda key: self.inner(theta, key))(draws.key_K)
        return log_mean_exp(value_KJ.T, draws.kept) if self.log_scale else _mean(value_KJ, draws.kept)

    def outer_mean(self, y_J: Float[Array, " J"], draws: Draws) -> Float[Array, ""]:
        """Oracle_f: the mean of K_t samples of f at y, or at log y."""
        return _mean(jax.vmap(lambda key: self.outer(y_J, key))(draws.key_K), draws.kept)

    def weigh(
        self, slope_J: Float[Array, " J"], inner_J: Float[Array, " J"], y_J: Float[Array, " J"]
    ) -> Float[Array, " J"]:
        """The slope of f at y as weights on grad g; in log space k_j = (g_j / y_j) df/dlog y_j on grad log g_j."""
        return slope_J * jnp.exp(inner_J - y_J) if self.log_scale else slope_J

    def smooth(
        self, y_J: Float[Array, " J"], inner_J: Float[Array, " J"], beta: Float[Array, ""]
    ) -> Float[Array, " J"]:
        """y <- (1 - beta) y + beta g."""
        if self.log_scale:
            return jnp.logaddexp(jnp.log1p(-beta) + y_J, jnp.log(beta) + inner_J)
        return (1 - beta) * y_J + beta * inner_J


def check(problem: Problem, theta: Theta, key: PRNGKeyArray) -> None:
    """Refuse parameters that cannot be differentiated and oracles with the wrong shapes."""
    leaves = jax.tree.leaves(theta)
    require(len(leaves) > 0, "theta_1 has no arrays: there is nothing to minimise over")
    for leaf in leaves:
        require(_is_float(leaf), f"theta_1 must hold float arrays only, not {_describe(leaf)}")
        known = not isinstance(leaf, jax.core.Tracer)
        require(not known or bool(np.isfinite(leaf).all()), "theta_1 must be finite")
    y = jax.eval_shape(problem.inner, theta, key)
    require(
        _is_float(y) and y.ndim == 1 and y.size > 0,
        f"inner(theta, key) must return a float vector of shape (n,), not {_describe(y)}",
    )
    value = jax.eval_shape(problem.outer, y, key)
    require(
        _is_float(value) and value.ndim == 0, f"outer(y, key) must return a float of shape (), not {_describe(value)}"
    )


def _mean(value_K: Float[Array, "K ..."], kept: Int[Array, ""]) -> Array:
    """The mean over the first `kept` rows."""
    kept_K = (jnp.arange(len(value_K)) < kept).reshape(-1, *(1,) * (value_K.ndim - 1))
    return jnp.where(kept_K, value_K, 0).sum(axis=0) / kept


def _is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)


def _describe(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else f"a {type(value).__name__}"
