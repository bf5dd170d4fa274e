"""Target protocols (a dimension and a log density of one point), and checks of a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.errors import TargetError, require
from civi.problem.target.explain import explain


@runtime_checkable
class Target(Protocol):
    """log p(x, z) as a function of one z in R^dim, normalised or not."""

    @property
    def dim(self) -> int:
        """Dimension of z."""
        ...

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        """log p(x, z)."""
        ...


@runtime_checkable
class SampledTarget(Target, Protocol):
    """A target with an exact sampler."""

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """Exact draws."""
        ...


@runtime_checkable
class BatchedTarget(Protocol):
    """A target with rows of data, which can be evaluated on a mini-batch."""

    @property
    def dim(self) -> int:
        """Dimension of z."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    def batch(self, key: PRNGKeyArray, count: int) -> Any:
        """A target with an unbiased estimate of log p(x, z) from `count` random rows."""
        ...


def batch_of(target: Any, key: PRNGKeyArray, count: int | None) -> Any:
    """The target on a random mini-batch of `count` rows, or on all data if `count` is None."""
    return target if count is None else target.batch(key, count)


def work_of(target: Any) -> int:
    """About how many numbers one evaluation of the target computes; 0 if it is not known."""
    work: int = getattr(target, "work", 0)
    return work


def rows_seen(target: Any) -> int:
    """Number of rows that one evaluation of `log_prob` reads: fewer than `rows` if it is estimated from a sample."""
    return getattr(target, "rows_seen", 0) or getattr(target, "rows", 0) or 1


def log_prob_each(target: Any) -> Callable[[Float[Array, "J D"]], Float[Array, " J"]]:
    """log p(x, z_j) at each of several points, as a differentiable function of the points.

    A target that sets `points_at_a_time` is evaluated in groups of that many points, each point with its gradient.
    """
    count = points_at_a_time(target)
    if count is None:
        return jax.vmap(target.log_prob)
    return target.log_prob_each if hasattr(target, "log_prob_each") else _in_parts(target.log_prob, count)


def points_at_a_time(target: Any) -> int | None:
    """Number of points at which to evaluate a target at a time; None for any number."""
    count: int | None = getattr(target, "points_at_a_time", None)
    return count


def each(function: Callable[[Any], Any], points: Any, at_a_time: int) -> Any:
    """Apply the function to every point, in groups of `at_a_time` points."""
    return jax.lax.map(function, points, batch_size=at_a_time if at_a_time > 1 else None)


def _in_parts(log_prob: Callable[[Array], Array], count: int) -> Callable[[Array], Array]:
    @jax.custom_vjp
    def values(z_J: Array) -> Array:
        return each(log_prob, z_J, count)

    def forward(z_J: Array) -> tuple[Array, Array]:
        return each(jax.value_and_grad(log_prob), z_J, count)

    def backward(slopes_J: Array, weights_J: Array) -> tuple[Array]:
        return (weights_J[:, None] * slopes_J,)

    values.defvjp(forward, backward)
    return values


def check_batch(target: Any, count: int | None) -> None:
    """Raise SettingError unless the target has rows of data, and at least `count` of them."""
    if count is None:
        whole = not hasattr(target, "feed")
        require(whole, "the rows of this table are read from disk in batches: set problem.batch, for example to 1000")
        return
    require(count >= 1, f"problem.batch must be at least 1, or none for all rows, not {count}")
    has_rows = isinstance(target, BatchedTarget) and bool(target.rows)
    needed = "a target with rows of data over which its log density is a sum"
    require(has_rows, f"problem.batch needs {needed}, which this one is not: leave it at none")
    fits = count <= target.rows
    require(fits, f"problem.batch ({count}) is larger than the data ({target.rows} rows): make it smaller")


class LogDensity(eqx.Module):
    """A user's log density as a target.

    Example:
        >>> import civi, jax.numpy as jnp
        >>> target = civi.LogDensity(lambda z: -0.5 * (z**2).sum(), dim=2)
        >>> float(target.log_prob(jnp.array([1.0, 2.0])))
        -2.5
    """

    function: Callable[[Array], Array] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.function(z)


def check_shape(target: Target) -> None:
    """Raise TargetError unless the log density maps a vector of length dim to a scalar."""
    try:
        shape = jax.eval_shape(target.log_prob, jax.ShapeDtypeStruct((target.dim,), jnp.result_type(float))).shape
    except Exception as error:
        raise TargetError(f"the log density fails on a vector of length {target.dim}: {explain(error)}") from error
    if shape != ():
        raise TargetError(f"the log density must return one number for one z, not an array of shape {shape}")


def check_values(z_J: Float[Array, "J D"], log_p_J: Float[Array, " J"]) -> None:
    """Raise TargetError if the log density `log_p_J` is NaN or +inf at one of the first draws, or -inf at all."""
    log_p = np.asarray(log_p_J)
    bad = np.isnan(log_p) | (log_p == np.inf)
    if bad.any():
        where = np.asarray(z_J)[bad.argmax()].round(3).tolist()
        raise TargetError(
            f"the log density is NaN or +inf at {bad.sum()} of the first {len(log_p)} draws, for example at "
            f"z = {where}: check its domain and scale"
        )
    if not np.isfinite(log_p).any():
        raise TargetError(
            f"the log density is -inf at all of the first {len(log_p)} draws: "
            "shift or scale z so that the mass of the target is near 0"
        )
