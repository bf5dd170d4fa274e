"""Explicit, reparameterisable conditionals q(z | eps): z = h(u; eps), u ~ q(u).

A conditional reads the mixing network's output (`mixed`) for one eps. A new one is a class with the five members of
`Conditional`, added to `CONDITIONALS`. `log_prob_pairs` is the only place where outer samples J meet inner samples K.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

LOG_2PI = float(np.log(2 * np.pi))


class Conditional(eqx.Module):
    """q(z | eps) with its own free parameters (theta_2 of the paper)."""

    @classmethod
    @abstractmethod
    def init(cls, dim: int, scale: float) -> Conditional:
        """Free parameters such that the standard deviation of z given eps is about `scale`."""

    @staticmethod
    @abstractmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        """Gain of each output of the mixing network at the start: `spread` for locations, 0 for log scales."""

    @abstractmethod
    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """u ~ q(u)."""

    @abstractmethod
    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        """z = h(u; eps)."""

    @abstractmethod
    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        """log q(z | eps)."""

    @abstractmethod
    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        """log q(z_j | eps_k) for all pairs, in memory O(JK)."""


class DiagonalGaussian(Conditional):
    """N(mu(eps), diag(exp(2 log_scale))): the paper's conditional for toys and VAEs."""

    log_scale: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> DiagonalGaussian:
        return cls(jnp.full(dim, jnp.log(scale)))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.full(dim, spread)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.normal(key, (count, self.log_scale.size))

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return mixed + jnp.exp(self.log_scale) * u

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob((z - mixed) * jnp.exp(-self.log_scale), self.log_scale.sum())

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        precision = jnp.exp(-self.log_scale)
        return _normal_log_prob_pairs(mixed_K, z_J, lambda x: x * precision, self.log_scale.sum())


class CholeskyGaussian(Conditional):
    """N(mu(eps), L L^T), L lower triangular with a positive diagonal: the paper's conditional for regression."""

    lower: Float[Array, "D D"]
    log_diagonal: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> CholeskyGaussian:
        return cls(jnp.zeros((dim, dim)), jnp.full(dim, jnp.log(scale)))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.full(dim, spread)

    @property
    def cholesky(self) -> Float[Array, "D D"]:
        """The factor L."""
        return jnp.tril(self.lower, -1) + jnp.diag(jnp.exp(self.log_diagonal))

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.normal(key, (count, self.log_diagonal.size))

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return mixed + self.cholesky @ u

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob(solve_triangular(self.cholesky, z - mixed, lower=True), self.log_diagonal.sum())

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        def whiten(x: Array) -> Array:
            return solve_triangular(self.cholesky, x.T, lower=True).T

        return _normal_log_prob_pairs(mixed_K, z_J, whiten, self.log_diagonal.sum())


class ScaledGaussian(Conditional):
    """N(mu(eps), diag(exp(2 (log_scale + s(eps))))): the network gives location and log scale for every eps.

    Where a posterior is thin in one place and wide in another (the banana's tails), one scale for all eps must be as
    small as the thinnest place asks, and the inner mean then needs far more samples everywhere.
    """

    log_scale: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> ScaledGaussian:
        return cls(jnp.full(dim, jnp.log(scale)))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.concatenate([jnp.full(dim, spread), jnp.zeros(dim)])

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.normal(key, (count, self.log_scale.size))

    def _location_and_log_scale(self, mixed: Float[Array, "*N P"]) -> tuple[Array, Array]:
        location, change = jnp.split(mixed, 2, axis=-1)
        return location, self.log_scale + change

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        location, log_scale = self._location_and_log_scale(mixed)
        return location + jnp.exp(log_scale) * u

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        location, log_scale = self._location_and_log_scale(mixed)
        return _normal_log_prob((z - location) * jnp.exp(-log_scale), log_scale.sum())

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        location_K, log_scale_K = self._location_and_log_scale(mixed_K)
        centre = jax.lax.stop_gradient(location_K.mean(0))
        m_K, x_J = location_K - centre, z_J - centre
        precision_K = jnp.exp(-2 * log_scale_K)
        left_J = jnp.concatenate([x_J**2, -2 * x_J, jnp.ones((len(x_J), 1))], axis=1)
        square_K = (precision_K * m_K**2).sum(1, keepdims=True)
        right_K = jnp.concatenate([precision_K, precision_K * m_K, square_K], axis=1)
        squared = jnp.maximum(left_J @ right_K.T, 0.0)
        return -0.5 * (squared + z_J.shape[1] * LOG_2PI) - log_scale_K.sum(1)


class Laplace(Conditional):
    """Independent Laplace coordinates with location mu(eps) and free standard deviations."""

    log_scale: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> Laplace:
        return cls(jnp.full(dim, jnp.log(scale / np.sqrt(2))))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.full(dim, spread)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.laplace(key, (count, self.log_scale.size))

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return mixed + jnp.exp(self.log_scale) * u

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return -(jnp.abs(z - mixed) * jnp.exp(-self.log_scale) + self.log_scale + np.log(2)).sum()

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        @jax.checkpoint
        def add_coordinate(total_JK: Array, coordinate: tuple[Array, Array, Array]) -> tuple[Array, None]:
            x_J, m_K, precision = coordinate
            return total_JK + jnp.abs(x_J[:, None] - m_K) * precision, None

        start = jnp.zeros((len(z_J), len(mixed_K)), z_J.dtype)
        absolute, _ = jax.lax.scan(add_coordinate, start, (z_J.T, mixed_K.T, jnp.exp(-self.log_scale)))
        return -absolute - (self.log_scale + np.log(2)).sum()


class LogNormal(Conditional):
    """log z ~ N(mu(eps), diag(exp(2 log_scale))): for targets on positive numbers."""

    gaussian: DiagonalGaussian

    @classmethod
    def init(cls, dim: int, scale: float) -> LogNormal:
        return cls(DiagonalGaussian.init(dim, scale))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return DiagonalGaussian.output_gain(dim, spread)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return self.gaussian.draw_base(key, count)

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return jnp.exp(self.gaussian.transform(mixed, u))

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.gaussian.log_prob(mixed, jnp.log(z)) - jnp.log(z).sum()

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        log_z_J = jnp.log(z_J)
        return self.gaussian.log_prob_pairs(mixed_K, log_z_J) - log_z_J.sum(1)[:, None]


CONDITIONALS: dict[str, type[Conditional]] = {
    "diagonal": DiagonalGaussian,
    "cholesky": CholeskyGaussian,
    "scaled": ScaledGaussian,
    "laplace": Laplace,
    "log-normal": LogNormal,
}


def _normal_log_prob(whitened: Float[Array, " D"], log_determinant: Float[Array, ""]) -> Float[Array, ""]:
    return -0.5 * (whitened @ whitened + whitened.size * LOG_2PI) - log_determinant


def _normal_log_prob_pairs(
    mean_K: Float[Array, "K D"],
    z_J: Float[Array, "J D"],
    whiten: Callable[[Array], Array],
    log_determinant: Float[Array, ""],
) -> Float[Array, "J K"]:
    """|W z_j - W mu_k|^2 by one matrix product; centring first keeps the cancellation harmless in float32."""
    centre = jax.lax.stop_gradient(mean_K.mean(0))
    x_J, m_K = whiten(z_J - centre), whiten(mean_K - centre)
    square = partial(jnp.sum, axis=1)
    squared = jnp.maximum(square(x_J**2)[:, None] + square(m_K**2) - 2 * x_J @ m_K.T, 0.0)
    return -0.5 * (squared + z_J.shape[1] * LOG_2PI) - log_determinant
