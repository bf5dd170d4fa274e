"""A compositional problem of the user's own: two oracles of one sample each, and their means over many samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.estimate import Sketch, log_mean_exp
from civi.parts import constant, trained
from civi.problem.base import Chunk, InitDraws, Inner, StepDraws
from civi.tracker import Pool
from civi.update import SampleSizes

FIRST = 256


class Oracles(eqx.Module):
    """min over theta of E_nu[ f_nu( E_omega[ g_omega(theta) ] ) ].

    inner(theta, key) is g_omega(theta) in R^n for one omega, outer(y, key) is the scalar f_nu(y) for one nu; each draws
    its own sample from the key. With log_scale the inner mean is positive and kept as a logarithm: inner returns
    log g_omega(theta), outer takes log y, and means and smoothing are done in log space (appendix A of the paper).
    """

    inner: Callable[[Any, PRNGKeyArray], Array]
    outer: Callable[[Array, PRNGKeyArray], Array]
    log_scale: bool = eqx.field(static=True, default=False)

    def inner_mean(self, theta: Any, draws: Inner) -> Float[Array, " J"]:
        """Oracle_g: the mean of K_t samples of g, or its logarithm; `draws.key` has a key for every sample."""
        value_KJ = jax.vmap(lambda key: self.inner(theta, key))(draws.key)
        return log_mean_exp(value_KJ.T, draws.kept) if self.log_scale else _mean(value_KJ, draws.kept)

    def outer_mean(self, y_J: Float[Array, " J"], draws: Inner) -> Float[Array, ""]:
        """Oracle_f: the mean of K_t samples of f at y, or at log y."""
        return _mean(jax.vmap(lambda key: self.outer(y_J, key))(draws.key), draws.kept)


class OracleLook(eqx.Module):
    """The inner mean, or its logarithm, from `kept` samples."""

    fresh_J: Float[Array, " J"]
    kept: Int[Array, ""]
    log_scale: bool = eqx.field(static=True)


class OracleNu(NamedTuple):
    """K1 samples of f, and the sketch of the entries that f depends on; all n entries of y are in use."""

    index_S: Int[Array, " S"]
    outer: Inner
    sketch: Sketch
    sketch_key: PRNGKeyArray


class OracleProblem(eqx.Module):
    """Two oracles and the theta they are minimised over; y has n entries, all tracked in every step."""

    theta: Any = trained("theta")
    oracles: Oracles = constant()

    def check(self) -> None:
        """Refuse parameters that cannot be differentiated and oracles with the wrong shapes."""
        leaves = jax.tree.leaves(self.theta)
        require(len(leaves) > 0, "theta_1 has no arrays: there is nothing to minimise over")
        for leaf in leaves:
            require(_is_float(leaf), f"theta_1 must hold float arrays only, not {_describe(leaf)}")
            known = not isinstance(leaf, jax.core.Tracer)
            require(not known or bool(np.isfinite(leaf).all()), "theta_1 must be finite")
        y, key = self._inner_shape(), jax.eval_shape(lambda: jax.random.key(0))
        require(
            _is_float(y) and y.ndim == 1 and y.size > 0,
            f"inner(theta, key) must return a float vector of shape (n,), not {_describe(y)}",
        )
        value = jax.eval_shape(self.oracles.outer, y, key)
        require(
            _is_float(value) and value.ndim == 0,
            f"outer(y, key) must return a float of shape (), not {_describe(value)}",
        )

    def first_values(self, key: PRNGKeyArray, count: int) -> tuple[Array, Array]:
        """Nothing to check beforehand: a step that is not finite is undone."""
        return jnp.zeros((1, 1)), jnp.zeros(1)

    def pool(self, pool: Pool, outer: int) -> Pool:
        """One chunk of all n entries, which never changes."""
        return Pool(chunk=self._inner_shape().size, switch_every=None)

    def init_draws(self, sizes: SampleSizes, key: PRNGKeyArray) -> InitDraws:
        """y_1 = g(theta_1) from the run's largest batch, and at least FIRST samples.

        The paper's y_1 = 0 has no logarithm, and a y_1 from a few samples can be so small that the first gradients,
        which are as large as 1/y_1, fill v for the rest of the run.
        """
        count = first_count(sizes)
        return InitDraws(key, key, Inner(jax.random.split(key, count), count, jnp.asarray(count)))

    def step_draws(self, sizes: SampleSizes, t: Float[Array, ""], key: PRNGKeyArray) -> StepDraws:
        """One key for every sample of f and g, from one split."""
        outer, inner, auxiliary = (sizes.most(kind) for kind in ("outer", "inner", "auxiliary"))
        keys = jax.random.split(key, outer + inner + auxiliary + 1)
        return StepDraws(
            keys[:outer],
            keys[-1],
            Inner(keys[outer : outer + inner], inner, sizes.at("inner", t)),
            Inner(keys[outer + inner : -1], auxiliary, sizes.at("auxiliary", t)),
        )

    def draw_outer(self, key: PRNGKeyArray, count: int) -> tuple[()]:
        """The entries of y are the user's: the pool holds nothing."""
        return ()

    def draw_nu(
        self, pool: Pool, sizes: SampleSizes, sketch: Sketch, t: Float[Array, ""], draws: StepDraws
    ) -> OracleNu:
        outer = Inner(draws.nu_key, len(draws.nu_key), sizes.at("outer", t))
        return OracleNu(jnp.arange(pool.chunk_size), outer, sketch, draws.sketch_key)

    def look(self, chunk: Chunk, nu: OracleNu | None, inner: Inner, t: Float[Array, ""]) -> OracleLook:
        return OracleLook(self.oracles.inner_mean(self.theta, inner), inner.kept, self.oracles.log_scale)

    def weight(self, t: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.ones(())

    def _inner_shape(self) -> Any:
        """What inner returns: shape and type of y."""
        return jax.eval_shape(self.oracles.inner, self.theta, jax.eval_shape(lambda: jax.random.key(0)))


def first_count(sizes: SampleSizes) -> int:
    """Number of samples in y_1."""
    return max(FIRST, sizes.most("auxiliary"))


def _mean(value_K: Float[Array, "K ..."], kept: Int[Array, ""]) -> Array:
    """The mean over the first `kept` rows."""
    kept_K = (jnp.arange(len(value_K)) < kept).reshape(-1, *(1,) * (value_K.ndim - 1))
    return jnp.where(kept_K, value_K, 0).sum(axis=0) / kept


def _is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)


def _describe(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else f"a {type(value).__name__}"
