"""A compositional problem given by the user's two oracles, each of which evaluates one sample."""

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

    Args:
        inner: inner(theta, key) draws one omega from the key and returns g_omega(theta) in R^n.
        outer: outer(y, key) draws one nu from the key and returns the scalar f_nu(y).
        log_scale: for a positive inner mean, work with its logarithm: inner returns log g_omega(theta), outer takes
            log y, and means and smoothing are computed in log space (appendix A of the paper).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from civi.compositional import Oracles
        >>> oracles = Oracles(
        ...     inner=lambda theta, key: theta + jax.random.normal(key, theta.shape),
        ...     outer=lambda y, key: (y**2).sum(),
        ... )
        >>> oracles.inner(jnp.zeros(3), jax.random.key(0)).shape
        (3,)
    """

    inner: Callable[[Any, PRNGKeyArray], Array]
    outer: Callable[[Array, PRNGKeyArray], Array]
    log_scale: bool = eqx.field(static=True, default=False)

    def inner_mean(self, theta: Any, draws: Inner) -> Float[Array, " J"]:
        """Oracle_g: the mean of K_t samples of g, or its logarithm; `draws.key` holds one key per sample."""
        value_KJ = jax.vmap(lambda key: self.inner(theta, key))(draws.key)
        return log_mean_exp(value_KJ.T, draws.kept) if self.log_scale else _mean(value_KJ, draws.kept)

    def outer_mean(self, y_J: Float[Array, " J"], draws: Inner) -> Float[Array, ""]:
        """Oracle_f: the mean of K_t samples of f at y (given as log y if log_scale)."""
        return _mean(jax.vmap(lambda key: self.outer(y_J, key))(draws.key), draws.kept)


class OracleLook(eqx.Module):
    """The inner mean, or its logarithm, from `kept` samples."""

    fresh_J: Float[Array, " J"]
    kept: Int[Array, ""]
    log_scale: bool = eqx.field(static=True)


class OracleNu(NamedTuple):
    """K1 samples of f, and the sketch over the entries that f depends on. All n entries of y are in use."""

    index_S: Int[Array, " S"]
    outer: Inner
    sketch: Sketch
    sketch_key: PRNGKeyArray


class OracleProblem(eqx.Module):
    """Two oracles and the parameters theta; y has n entries, and every step tracks all of them."""

    theta: Any = trained("theta")
    oracles: Oracles = constant()

    def check(self) -> None:
        """Raise SettingError if theta is not made of finite floats, or if an oracle returns the wrong shape."""
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
        """Placeholders: there is nothing to check beforehand, and a non-finite step is undone."""
        return jnp.zeros((1, 1)), jnp.zeros(1)

    def pool(self, pool: Pool, outer: int) -> Pool:
        """A single chunk of all n entries, which is never replaced."""
        return Pool(chunk=self._inner_shape().size, switch_every=None)

    def init_draws(self, sizes: SampleSizes, key: PRNGKeyArray) -> InitDraws:
        """Draws for y_1 = g(theta_1): the largest K3 of the run, but at least FIRST samples.

        The paper's y_1 = 0 has no logarithm. With few samples y_1 can be so small that the first gradients, which scale
        as 1/y_1, dominate the second moment v for the rest of the run.
        """
        count = first_count(sizes)
        return InitDraws(key, key, Inner(jax.random.split(key, count), count, jnp.asarray(count)))

    def step_draws(self, sizes: SampleSizes, t: Float[Array, ""], key: PRNGKeyArray) -> StepDraws:
        """One key for every sample of f and g, all from one split."""
        outer, inner, auxiliary = (sizes.most(kind) for kind in ("outer", "inner", "auxiliary"))
        keys = jax.random.split(key, outer + inner + auxiliary + 1)
        return StepDraws(
            keys[:outer],
            keys[-1],
            Inner(keys[outer : outer + inner], inner, sizes.at("inner", t)),
            Inner(keys[outer + inner : -1], auxiliary, sizes.at("auxiliary", t)),
        )

    def draw_outer(self, key: PRNGKeyArray, count: int) -> tuple[()]:
        """Nothing: the entries of y are fixed by the user's oracle, so there are no outer samples to draw."""
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
        """Shape and dtype of y, the output of `inner`."""
        return jax.eval_shape(self.oracles.inner, self.theta, jax.eval_shape(lambda: jax.random.key(0)))


def first_count(sizes: SampleSizes) -> int:
    """Number of samples that y_1 is the mean of."""
    return max(FIRST, sizes.most("auxiliary"))


def _mean(value_K: Float[Array, "K ..."], kept: Int[Array, ""]) -> Array:
    """The mean over the first `kept` rows."""
    kept_K = (jnp.arange(len(value_K)) < kept).reshape(-1, *(1,) * (value_K.ndim - 1))
    return jnp.where(kept_K, value_K, 0).sum(axis=0) / kept


def _is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)


def _describe(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else f"a {type(value).__name__}"
