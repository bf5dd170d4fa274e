"""The three toy targets, exactly as in appendix B: normalised log density and exact sampler.

Other papers' "banana" and "multimodal" have other constants; results here are for these.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import multivariate_normal
from jaxtyping import Array, Float, PRNGKeyArray


class GaussianMixture(eqx.Module):
    """Equally weighted Gaussian components: two-modal and star."""

    means: Float[Array, "C D"]
    covariances: Float[Array, "C D D"]

    @property
    def dim(self) -> int:
        return self.means.shape[1]

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        each = jax.vmap(multivariate_normal.logpdf, in_axes=(None, 0, 0))(z, self.means, self.covariances)
        return logsumexp(each) - jnp.log(len(self.means))

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """Exact draws."""
        key_component, key_normal = jax.random.split(key)
        component = jax.random.randint(key_component, (count,), 0, len(self.means))
        noise = jax.random.normal(key_normal, (count, self.dim))
        factors = jnp.linalg.cholesky(self.covariances)
        return self.means[component] + jnp.einsum("nij,nj->ni", factors[component], noise)


class Banana(eqx.Module):
    """z = (a, b - a^2 - 1) with (a, b) ~ N(0, [[1, 0.9], [0.9, 1]]); the map has unit Jacobian."""

    covariance: Float[Array, "2 2"]

    @property
    def dim(self) -> int:
        return 2

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        straight = jnp.array([z[0], z[1] + z[0] ** 2 + 1])
        return jnp.asarray(multivariate_normal.logpdf(straight, jnp.zeros(2), self.covariance))

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N D"]:
        """Exact draws."""
        a, b = (jax.random.normal(key, (count, 2)) @ jnp.linalg.cholesky(self.covariance).T).T
        return jnp.stack([a, b - a**2 - 1], axis=1)


def two_modal() -> GaussianMixture:
    """0.5 N((-2, 0), I) + 0.5 N((2, 0), I)."""
    return GaussianMixture(jnp.array([[-2.0, 0.0], [2.0, 0.0]]), jnp.stack([jnp.eye(2)] * 2))


def star() -> GaussianMixture:
    """0.5 N(0, [[2, 1.8], [1.8, 2]]) + 0.5 N(0, [[2, -1.8], [-1.8, 2]])."""
    covariances = jnp.array([[[2.0, 1.8], [1.8, 2.0]], [[2.0, -1.8], [-1.8, 2.0]]])
    return GaussianMixture(jnp.zeros((2, 2)), covariances)


def banana() -> Banana:
    """The banana of appendix B."""
    return Banana(jnp.array([[1.0, 0.9], [0.9, 1.0]]))
