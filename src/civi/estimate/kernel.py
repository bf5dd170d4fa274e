"""Kernels between two batches, with the median heuristic for their width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from civi.settings import check_settings, self_checking

LARGEST_FLOAT_BITS = 0x7F7FFFFF


@self_checking
@dataclass(frozen=True)
class Kernel:
    """k(x, y) of r = log(I + 1) |x - y|^2 / median, for I points x: exp(-r) or (1 + r)^(-1/2)."""

    form: Annotated[Literal["gaussian", "imq"], "Kernel: gaussian, or inverse multiquadric (imq)."] = "gaussian"
    moving: Annotated[bool, "Whether the median of the distances, as the distances, is differentiated."] = True

    def __post_init__(self) -> None:
        check_settings(self, "objective.kernel")

    def __call__(self, x_I: Float[Array, "I D"], y_J: Float[Array, "J D"]) -> Float[Array, "I J"]:
        """k(x_i, y_j) for all pairs."""
        squared_IJ = squared_distances(x_I, y_J)
        middle = median(squared_IJ)
        middle = middle if self.moving else jax.lax.stop_gradient(middle)
        ratio_IJ = squared_IJ * (jnp.log(len(x_I) + 1.0) / jnp.maximum(middle, 1e-12))
        return jnp.exp(-ratio_IJ) if self.form == "gaussian" else jax.lax.rsqrt(1 + ratio_IJ)


def squared_distances(x_I: Float[Array, "I D"], y_J: Float[Array, "J D"]) -> Float[Array, "I J"]:
    """|x_i - y_j|^2 by one matrix product; centring first limits the cancellation error in float32."""
    centre = jax.lax.stop_gradient(y_J.mean(0))
    x_I, y_J = x_I - centre, y_J - centre
    return jnp.maximum((x_I**2).sum(1)[:, None] + (y_J**2).sum(1) - 2 * x_I @ y_J.T, 0.0)


def median(values: Float[Array, "I J"]) -> Float[Array, ""]:
    """The lower median of numbers that are not negative, with the gradient of the entry that it is.

    Floats of one sign are ordered as their bits are, so bisection on the bits finds the entry in 31 counts. On a CPU
    that is forty times faster than sorting. Counts of floats are vectorised, and are exact within a row.
    """
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(values).astype(jnp.float32), jnp.int32)
    wanted = (bits.size + 1) // 2

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = low + (high - low) // 2
        enough = (bits <= middle).astype(float).sum(1).astype(int).sum() >= wanted
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    start = jnp.zeros((), jnp.int32), jnp.asarray(LARGEST_FLOAT_BITS, jnp.int32)
    found, _ = jax.lax.fori_loop(0, 31, halve, start)
    return values.reshape(-1)[jnp.argmax(bits.reshape(-1) == found)]
