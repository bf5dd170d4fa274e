"""A trained triangular map: coordinates get skewness and tails of their own, and a few of them govern the others."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from civi.problem.target.program import on_device

GOVERNING, HIDDEN = 16, 64
LARGEST_LOG_SCALE, LARGEST_SKEW, LARGEST_LOG_TAIL = 3.0, 2.0, 1.0
MEAN, SLOPE = 1.3545, 1.4615  # E[sqrt(1 + w^2)] and E[w asinh(w) sqrt(1 + w^2)] of a standard normal w


class TriangularMap(eqx.Module):
    """T(w) = C(S(w)); both steps are the identity at the start, and are the same for every eps.

    S is the sinh-arcsinh map (Jones and Pewsey 2009) of each coordinate, with skewness e and tail d,

        y = d^-SLOPE [sinh(d (asinh w + e)) - MEAN sinh(d e)],

    where the constants keep mean and variance of a standard normal w to first order. In C, the location and the scale
    of coordinate l depend on those of the first G coordinates that come before l:

        C(y)_l = y_l exp(s_l) + t_l,   (s, t) = g A + tanh(g V + b) U,   g = (y_1, ..., y_G).

    A and U are masked so that C is triangular. In the posterior of a hierarchical model, location and scale of many
    local parameters depend on a few global ones. A mixing network expresses this only by narrow conditionals, because
    in many dimensions each z has to be explained by a few of the inner samples.

    The arrays may also be NumPy arrays in double precision.
    """

    skew: Float[Array, " D"]
    tail: Float[Array, " D"]
    linear: Float[Array, "G 2 D"]
    inner: Float[Array, "G H"]
    bias: Float[Array, " H"]
    outer: Float[Array, "H 2 D"]

    @classmethod
    def identity(cls, dim: int) -> TriangularMap:
        """The identity on R^dim; V and b are drawn with a fixed seed."""
        count, rng = governing(dim), np.random.default_rng(0)
        inner, bias = rng.normal(size=(count, HIDDEN)) / np.sqrt(max(1, count)), rng.normal(size=HIDDEN)
        each = np.zeros(dim)
        arrays = (each, each, np.zeros((count, 2, dim)), inner, bias, np.zeros((HIDDEN, 2, dim)))
        return cls(*map(on_device, arrays))

    def outward(self, w: Float[Array | np.ndarray, "*N D"]) -> tuple[Any, Any]:
        """T(w), and log |det dT/dw|."""
        xp = _module(w)
        y, log_slope = self._shaped(w, xp)
        log_scale, shift = self._changes(y, xp)
        return y * xp.exp(log_scale) + shift, (log_slope + log_scale).sum(-1)

    def control(self, w: Float[Array, "*N D"], score: Float[Array, "*N D"]) -> Float[Array, "*N"]:
        """sum_l [score_l (t_l + w_l s_l) + s_l], whose gradient has mean 0: see `civi.problem.control`.

        s_l and t_l depend on coordinates before l only. Skewness and tail of each coordinate have no control variate.
        """
        log_scale, shift = self._changes(jax.lax.stop_gradient(self._shaped(w, jnp)[0]), jnp)
        return (score * (shift + w * log_scale) + log_scale).sum(-1)

    def inward(self, z: Float[Array | np.ndarray, "*N D"]) -> Any:
        """The inverse of T. Each round of the loop makes one more of the first G coordinates exact, the last all."""
        xp, y = _module(z), z
        for _ in range(len(self.linear) + 1):
            log_scale, shift = self._changes(y, xp)
            y = (z - shift) * xp.exp(-log_scale)
        skew, log_tail = self._shape(xp)
        tail = xp.exp(log_tail)
        return xp.sinh(xp.arcsinh(xp.exp(SLOPE * log_tail) * y + MEAN * xp.sinh(tail * skew)) / tail - skew)

    def _shaped(self, w: Any, xp: Any) -> tuple[Any, Any]:
        """S(w), and the logarithm of its slope at every coordinate."""
        skew, log_tail = self._shape(xp)
        tail = xp.exp(log_tail)
        angle = tail * (xp.arcsinh(w) + skew)
        y = xp.exp(-SLOPE * log_tail) * (xp.sinh(angle) - MEAN * xp.sinh(tail * skew))
        return y, (1 - SLOPE) * log_tail + xp.log(xp.cosh(angle)) - 0.5 * xp.log1p(w * w)

    def _shape(self, xp: Any) -> tuple[Any, Any]:
        """The skewness e and the logarithm of the tail d of each coordinate, both bounded."""
        return _bounded(self.skew, LARGEST_SKEW, xp), _bounded(self.tail, LARGEST_LOG_TAIL, xp)

    def _changes(self, y: Any, xp: Any) -> tuple[Any, Any]:
        """The log scales s and the shifts t of all coordinates; feature h sees the first seen[h] + 1 coordinates."""
        count, _, dim = self.linear.shape
        number, seen = np.arange(count)[:, None], np.arange(HIDDEN) * count // HIDDEN
        linear = self.linear * (number < np.arange(dim))[:, None]
        outer = self.outer * (seen[:, None] < np.arange(dim))[:, None]
        g = y[..., :count]
        features = xp.tanh(g @ (self.inner * (number <= seen)) + self.bias)
        changes = g @ linear.reshape(count, 2 * dim) + features @ outer.reshape(HIDDEN, 2 * dim)
        return _bounded(changes[..., :dim], LARGEST_LOG_SCALE, xp), changes[..., dim:]


def governing(dim: int) -> int:
    """G, the number of coordinates that others may depend on."""
    return min(GOVERNING, dim - 1)


def _bounded(value: Any, bound: float, xp: Any) -> Any:
    return bound * xp.tanh(value / bound)


def _module(points: Any) -> Any:
    """NumPy for NumPy arrays, JAX otherwise."""
    return np if isinstance(points, np.ndarray) else jnp
