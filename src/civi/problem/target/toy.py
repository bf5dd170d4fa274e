"""Toy targets in two dimensions: normalised log densities and exact samplers.

Two-modal, star and banana are exactly those of appendix B. The "banana" and "multimodal" targets of other papers may
have different constants; then results are not comparable.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import t as student_t
from jaxtyping import Array, Float, PRNGKeyArray

LOG_2PI = float(np.log(2 * np.pi))


class GaussianMixture(eqx.Module):
    """Equally weighted Gaussian components N(mean, L L^T); `whitening` holds the inverses L^-1."""

    means: Float[Array, "C D"]
    factors: Float[Array, "C D D"]
    whitening: Float[Array, "C D D"]

    @classmethod
    def of(cls, means: np.ndarray, covariances: np.ndarray) -> GaussianMixture:
        """The mixture of components with these means and covariances."""
        factors = np.linalg.cholesky(covariances)
        return cls(*(jnp.asarray(array, float) for array in (means, factors, np.linalg.inv(factors))))

    @property
    def dim(self) -> int:
        return self.means.shape[1]

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        whitened_C = jnp.einsum("cij,cj->ci", self.whitening, z - self.means)
        log_volume_C = jnp.log(jnp.diagonal(self.factors, axis1=1, axis2=2)).sum(1)
        each_C = -0.5 * (whitened_C**2).sum(1) - log_volume_C
        return logsumexp(each_C) - 0.5 * self.dim * LOG_2PI - jnp.log(len(self.means))

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """Exact draws."""
        key_component, key_normal = jax.random.split(key)
        component = jax.random.randint(key_component, (count,), 0, len(self.means))
        noise = jax.random.normal(key_normal, (count, self.dim))
        return self.means[component] + jnp.einsum("nij,nj->ni", self.factors[component], noise)


class Banana(eqx.Module):
    """z = (a, b - a^2 - 1) with (a, b) from `straight`; the map has unit Jacobian."""

    straight: GaussianMixture

    @property
    def dim(self) -> int:
        return 2

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.straight.log_prob(jnp.array([z[0], z[1] + z[0] ** 2 + 1]))

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """Exact draws."""
        a, b = self.straight.sample(key, count).T
        return jnp.stack([a, b - a**2 - 1], axis=1)


class StudentProduct(eqx.Module):
    """z = A t, where the entries of t are independent Student t variables with `freedom` degrees of freedom.

    With 2 degrees of freedom the variance is infinite. `whitening` is A^-1.
    """

    factor: Float[Array, "D D"]
    whitening: Float[Array, "D D"]
    freedom: float = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return len(self.factor)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        log_volume = jnp.linalg.slogdet(self.factor)[1]
        return student_t.logpdf(self.whitening @ z, self.freedom).sum() - log_volume

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """Exact draws."""
        return jax.random.t(key, self.freedom, (count, self.dim)) @ self.factor.T


def two_modal() -> GaussianMixture:
    """0.5 N((-2, 0), I) + 0.5 N((2, 0), I)."""
    return GaussianMixture.of(np.array([[-2.0, 0.0], [2.0, 0.0]]), np.stack([np.eye(2)] * 2))


def star() -> GaussianMixture:
    """0.5 N(0, [[2, 1.8], [1.8, 2]]) + 0.5 N(0, [[2, -1.8], [-1.8, 2]])."""
    covariances = np.array([[[2.0, 1.8], [1.8, 2.0]], [[2.0, -1.8], [-1.8, 2.0]]])
    return GaussianMixture.of(np.zeros((2, 2)), covariances)


def banana() -> Banana:
    """The banana of appendix B: (a, b) ~ N(0, [[1, 0.9], [0.9, 1]])."""
    return Banana(GaussianMixture.of(np.zeros((1, 2)), np.array([[[1.0, 0.9], [0.9, 1.0]]])))


def eight_gaussians() -> GaussianMixture:
    """Eight equally weighted N(m, 0.25 I) with the m on a circle of radius 4, six standard deviations apart."""
    angles = np.arange(8) * np.pi / 4
    return GaussianMixture.of(4 * np.stack([np.cos(angles), np.sin(angles)], axis=1), np.stack([0.25 * np.eye(2)] * 8))


def student() -> StudentProduct:
    """A t with A = [[1, 0], [0.8, 0.6]] and independent Student t variables with 2 degrees of freedom."""
    factor = np.array([[1.0, 0.0], [0.8, 0.6]])
    return StudentProduct(jnp.asarray(factor, float), jnp.asarray(np.linalg.inv(factor), float), 2.0)
