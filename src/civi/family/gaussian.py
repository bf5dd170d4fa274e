"""Gaussian conditionals: diagonal scale, Cholesky factor, scale that depends on eps, and the last two combined."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from civi.family.conditional import Conditional

LOG_2PI = float(np.log(2 * np.pi))
BOUND, LARGEST = 5.0, 80.0


class DiagonalGaussian(Conditional):
    """N(mu(eps), diag(exp(2 log_scale))): the paper's conditional for toy targets and VAEs."""

    log_scale: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> DiagonalGaussian:
        return cls(jnp.full(dim, jnp.log(scale), float))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.full(dim, spread)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.normal(key, (count, self.log_scale.size))

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return mixed + jnp.exp(self.log_scale) * u

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob(u, self.log_scale.sum())

    def score_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return -u * jnp.exp(-self.log_scale)

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob((z - mixed) * jnp.exp(-self.log_scale), self.log_scale.sum())

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        precision = jnp.exp(-self.log_scale)
        return _normal_log_prob_pairs(mixed_K, z_J, lambda x: x * precision, self.log_scale.sum())


class CholeskyGaussian(Conditional):
    """N(mu(eps), L L^T) with L lower triangular and a positive diagonal: the paper's conditional for regression."""

    lower: Float[Array, "D D"]
    log_diagonal: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> CholeskyGaussian:
        return cls(jnp.zeros((dim, dim)), jnp.full(dim, jnp.log(scale), float))

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

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob(u, self.log_diagonal.sum())

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob(self._whitening() @ (z - mixed), self.log_diagonal.sum())

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        whitening = self._whitening()
        return _normal_log_prob_pairs(mixed_K, z_J, lambda x: x @ whitening.T, self.log_diagonal.sum())

    def _whitening(self) -> Float[Array, "D D"]:
        """L^-1."""
        scale = jnp.exp(-self.log_diagonal)
        return scale[:, None] * _inverse_of_unit_lower(self.lower * scale)


class EpsScaled(Conditional):
    """Base class for scales that depend on eps; pairs are computed in coordinates where the conditional is diagonal."""

    @abstractmethod
    def diagonal_parts(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> tuple[Array, Array, Array]:
        """Locations (K, D), log scales (K, D) and z (J, D) in these coordinates."""

    def log_prob_pairs(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> Float[Array, "J K"]:
        return _scaled_log_prob_pairs(*self.diagonal_parts(mixed_K, z_J))

    def log_sum_pairs(
        self,
        mixed_K: Float[Array, "K P"],
        z_J: Float[Array, "J D"],
        counted_K: Bool[Array, " K"],
        reference_J: Float[Array, " J"],
    ) -> Float[Array, " J"]:
        return _scaled_log_sum_pairs(*self.diagonal_parts(mixed_K, z_J), counted_K, reference_J)


class ScaledGaussian(EpsScaled):
    """N(mu(eps), diag(exp(2 (log_scale + s(eps))))): the network outputs location and log scale.

    If a posterior is narrow in some regions and wide in others (such as the banana's tails), a single scale must be as
    small as the narrowest region requires, and the inner mean then needs far more samples everywhere.
    """

    log_scale: Float[Array, " D"]

    @classmethod
    def init(cls, dim: int, scale: float) -> ScaledGaussian:
        return cls(jnp.full(dim, jnp.log(scale), float))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return jnp.concatenate([jnp.full(dim, spread), jnp.zeros(dim)])

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return jax.random.normal(key, (count, self.log_scale.size))

    def location_and_log_scale(self, mixed: Float[Array, "*N P"]) -> tuple[Array, Array]:
        """mu(eps) and log_scale + s(eps)."""
        location, change = jnp.split(mixed, 2, axis=-1)
        return location, self.log_scale + change

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        location, log_scale = self.location_and_log_scale(mixed)
        return location + jnp.exp(log_scale) * u

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob(u, self.location_and_log_scale(mixed)[1].sum())

    def score_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        return -u * jnp.exp(-self.location_and_log_scale(mixed)[1])

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        location, log_scale = self.location_and_log_scale(mixed)
        return _normal_log_prob((z - location) * jnp.exp(-log_scale), log_scale.sum())

    def diagonal_parts(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> tuple[Array, Array, Array]:
        return *self.location_and_log_scale(mixed_K), z_J


class BoundedGaussian(ScaledGaussian):
    """N(mu(eps), diag(exp(2 (log_scale + B tanh(s(eps) / B))))): a ScaledGaussian whose log scales change by at most B.

    In a frame where the target is about standard normal, a change beyond B = 5 is never needed. The bound prevents huge
    draws where the network extrapolates to a rare eps.
    """

    def location_and_log_scale(self, mixed: Float[Array, "*N P"]) -> tuple[Array, Array]:
        """mu(eps) and log_scale + B tanh(s(eps) / B)."""
        location, change = jnp.split(mixed, 2, axis=-1)
        return location, self.log_scale + BOUND * jnp.tanh(change / BOUND)


class ScaledCholeskyGaussian(EpsScaled):
    """N(mu(eps), L diag(exp(2 s(eps))) L^T) with L trained and unit lower triangular: scales that depend on eps.

    L learns the correlations that are common to all of q, and the network learns the rest. With constant s this is
    CholeskyGaussian; with L = I it is ScaledGaussian. Pairs are computed as in ScaledGaussian after applying L^-1.

    The network's output s changes a log scale by B tanh(s / B). In a frame where the target is about standard normal a
    change beyond B = 5 is never needed, and the bound prevents huge draws where the network extrapolates to a rare eps.
    """

    lower: Float[Array, "D D"]
    scaled: ScaledGaussian

    @classmethod
    def init(cls, dim: int, scale: float) -> ScaledCholeskyGaussian:
        return cls(jnp.zeros((dim, dim)), ScaledGaussian.init(dim, scale))

    @staticmethod
    def output_gain(dim: int, spread: float) -> Float[Array, " P"]:
        return ScaledGaussian.output_gain(dim, spread)

    @property
    def frame(self) -> Float[Array, "D D"]:
        """The factor L."""
        return jnp.tril(self.lower, -1) + jnp.eye(len(self.lower))

    def _into_frame(self, x: Float[Array, "N D"]) -> Float[Array, "N D"]:
        return x @ _inverse_of_unit_lower(self.lower).T

    def location_and_log_scale(self, mixed: Float[Array, "*N P"]) -> tuple[Array, Array]:
        """mu(eps) and log_scale + B tanh(s(eps) / B)."""
        location, change = jnp.split(mixed, 2, axis=-1)
        return location, self.scaled.log_scale + BOUND * jnp.tanh(change / BOUND)

    def draw_base(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        return self.scaled.draw_base(key, count)

    def transform(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, " D"]:
        location, log_scale = self.location_and_log_scale(mixed)
        return location + self.frame @ (jnp.exp(log_scale) * u)

    def log_prob_at(self, mixed: Float[Array, " P"], u: Float[Array, " D"]) -> Float[Array, ""]:
        return _normal_log_prob(u, self.location_and_log_scale(mixed)[1].sum())

    def log_prob(self, mixed: Float[Array, " P"], z: Float[Array, " D"]) -> Float[Array, ""]:
        location, log_scale = self.location_and_log_scale(mixed)
        whitened = self._into_frame((z - location)[None])[0] * jnp.exp(-log_scale)
        return _normal_log_prob(whitened, log_scale.sum())

    def diagonal_parts(self, mixed_K: Float[Array, "K P"], z_J: Float[Array, "J D"]) -> tuple[Array, Array, Array]:
        """Coordinates after applying L^-1, centred at the mean location."""
        location_K, log_scale_K = self.location_and_log_scale(mixed_K)
        centre = jax.lax.stop_gradient(location_K.mean(0))
        return self._into_frame(location_K - centre), log_scale_K, self._into_frame(z_J - centre)


def _inverse_of_unit_lower(lower: Float[Array, "D D"]) -> Float[Array, "D D"]:
    """(I + N)^-1 = (I - N)(I + N^2)(I + N^4) ..., where N is the part of `lower` below the diagonal and N^D = 0.

    This needs matrix products only. Batched triangular solves call LAPACK from the compiled program, which is slower
    and can stall.
    """
    below, one = jnp.tril(lower, -1), jnp.eye(len(lower))
    inverse, power = one - below, below @ below
    for _ in range(max(0, (len(lower) - 1).bit_length() - 1)):
        inverse, power = inverse @ (one + power), power @ power
    return inverse


def _normal_log_prob(whitened: Float[Array, " D"], log_determinant: Float[Array, ""]) -> Float[Array, ""]:
    return -0.5 * (whitened @ whitened + whitened.size * LOG_2PI) - log_determinant


def _normal_log_prob_pairs(
    mean_K: Float[Array, "K D"],
    z_J: Float[Array, "J D"],
    whiten: Callable[[Array], Array],
    log_determinant: Float[Array, ""],
) -> Float[Array, "J K"]:
    """|W z_j - W mu_k|^2 by one matrix product; centring first limits the cancellation error in float32."""
    centre = jax.lax.stop_gradient(mean_K.mean(0))
    x_J, m_K = whiten(z_J - centre), whiten(mean_K - centre)
    square = partial(jnp.sum, axis=1)
    squared = jnp.maximum(square(x_J**2)[:, None] + square(m_K**2) - 2 * x_J @ m_K.T, 0.0)
    return -0.5 * (squared + z_J.shape[1] * LOG_2PI) - log_determinant


def _scaled_log_prob_pairs(
    location_K: Float[Array, "K D"], log_scale_K: Float[Array, "K D"], z_J: Float[Array, "J D"]
) -> Float[Array, "J K"]:
    """sum_d (z_jd - m_kd)^2 / s_kd^2 by one matrix product of [x^2, -2x, 1] and [1/s^2, m/s^2, sum m^2/s^2]."""
    centre = jax.lax.stop_gradient(location_K.mean(0))
    m_K, x_J = location_K - centre, z_J - centre
    precision_K = jnp.exp(-2 * log_scale_K)
    left_J = jnp.concatenate([x_J**2, -2 * x_J, jnp.ones((len(x_J), 1))], axis=1)
    square_K = (precision_K * m_K**2).sum(1, keepdims=True)
    right_K = jnp.concatenate([precision_K, precision_K * m_K, square_K], axis=1)
    squared = jnp.maximum(left_J @ right_K.T, 0.0)
    return -0.5 * (squared + z_J.shape[1] * LOG_2PI) - log_scale_K.sum(1)


def _scaled_log_sum_pairs(
    location_K: Float[Array, "K D"],
    log_scale_K: Float[Array, "K D"],
    z_J: Float[Array, "J D"],
    counted_K: Bool[Array, " K"],
    reference_J: Float[Array, " J"],
) -> Float[Array, " J"]:
    """log sum_k exp(log q(z_j | eps_k) - r_j) + r_j, with two matrix products and one exponential per pair.

    The first product gives the whole exponent, including the constants and the reference r_j, so no maximum is needed.
    Pairs far below r_j underflow to 0, as they would in the sum; pairs far above r_j are clipped at exp(80).
    """
    centre = location_K.mean(0)
    m_K, x_J = location_K - centre, z_J - centre
    precision_K = jnp.exp(-2 * log_scale_K)
    constant_K = (-0.5 * precision_K * m_K**2 - log_scale_K).sum(1, keepdims=True) - 0.5 * z_J.shape[1] * LOG_2PI
    ones_K, ones_J = jnp.ones_like(constant_K), jnp.ones((len(z_J), 1))
    right_K = jnp.concatenate([precision_K, precision_K * m_K, constant_K, ones_K], axis=1)
    left_J = jnp.concatenate([-0.5 * x_J**2, x_J, ones_J, -reference_J[:, None]], axis=1)
    exponent_KJ = jnp.minimum(right_K @ left_J.T, LARGEST)
    total_J = counted_K.astype(float) @ jnp.exp(exponent_KJ)
    some_J = total_J > 0  # a sum of nothing has the logarithm -inf, and the gradient 0 instead of NaN
    return reference_J + jnp.where(some_J, jnp.log(jnp.where(some_J, total_J, 1.0)), -jnp.inf)
