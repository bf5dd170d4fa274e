"""Laplace approximations N(m_n, C_n) of the posteriors p(z | x_n) of an autoencoder, for many data side by side.

m_n is a mode of log p(x_n, z), found by Newton's method, and C_n^-1 is minus the Hessian there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from civi.problem.autoencoder import Decoder, log_joint_each

STEPS, PRIOR_PRECISION = 12, 1.0


class Gaussians(NamedTuple):
    """N(mode_n, axes_n diag(sd_n^2) axes_n^T) for every datum; axes_n is orthogonal."""

    mode_N: Float[Array | np.ndarray, "N D"]
    axes_N: Float[Array | np.ndarray, "N D D"]
    sd_N: Float[Array | np.ndarray, "N D"]

    def draw(self, key: PRNGKeyArray, count: int) -> Float[Array, "N S D"]:
        """`count` draws of z for every datum."""
        data, dim = self.mode_N.shape
        along_NS = jnp.asarray(self.sd_N)[:, None] * jax.random.normal(key, (data, count, dim))
        return jnp.asarray(self.mode_N)[:, None] + along_NS @ jnp.swapaxes(self.axes_N, 1, 2)

    def log_prob(self, z_NS: Float[Array, "N S D"]) -> Float[Array, "N S"]:
        """log N(z; mode_n, axes_n diag(sd_n^2) axes_n^T)."""
        return norm.logpdf((z_NS - self.mode_N[:, None]) @ self.axes_N, 0.0, self.sd_N[:, None]).sum(-1)


class Derivatives(NamedTuple):
    """log p(x_n, z_n), its gradient in z_n, and minus its Hessian."""

    value_N: Any
    gradient_N: Any
    curvature_N: Any


def laplace_approximations(decoder: Decoder, x_N: Any, start_N: Float[np.ndarray, "N D"]) -> Gaussians:
    """The Laplace approximations at the modes that Newton's method finds.

    A step that does not increase log p(x, z) is not taken, and the next one is a quarter as long. Eigenvalues of the
    curvature count with their magnitude, and at least with the precision of the prior, so that every step ascends.

    Args:
        decoder: p(x | z).
        x_N: data, a pytree whose leaves have them on the first axis.
        start_N: where to start for every datum.
    """
    z_N, size_N = start_N.astype(np.float64), np.ones((len(start_N), 1))
    here = _derivatives(decoder, x_N, z_N)
    for _ in range(STEPS):
        axes_N, sd_N = _principal(here.curvature_N)
        along_N = np.einsum("nij,ni->nj", axes_N, here.gradient_N) * sd_N**2
        trial_N = z_N + size_N * np.einsum("nij,nj->ni", axes_N, along_N)
        there = _derivatives(decoder, x_N, trial_N)
        better_N = (there.value_N > here.value_N)[:, None]
        z_N, size_N = np.where(better_N, trial_N, z_N), np.where(better_N, np.minimum(1, 2 * size_N), size_N / 4)
        here = Derivatives(*(_chosen(better_N, new, old) for new, old in zip(there, here, strict=True)))
    return Gaussians(z_N.astype(np.float32), *(part.astype(np.float32) for part in _principal(here.curvature_N)))


def _principal(curvature_N: Float[np.ndarray, "N D D"]) -> tuple[np.ndarray, np.ndarray]:
    """Principal axes (the columns of a matrix) and the standard deviations along them."""
    eigenvalues_N, axes_N = np.linalg.eigh(curvature_N)
    return axes_N, np.maximum(np.abs(eigenvalues_N), PRIOR_PRECISION) ** -0.5


def _chosen(better_N: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(better_N.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _derivatives(decoder: Decoder, x_N: Any, z_N: Float[np.ndarray, "N D"]) -> Derivatives:
    return Derivatives(*(np.asarray(part, np.float64) for part in _compiled(decoder, x_N, z_N.astype(np.float32))))


@eqx.filter_jit
def _compiled(decoder: Decoder, x_N: Any, z_N: Float[Array | np.ndarray, "N D"]) -> Derivatives:
    def log_joint(x: Any, z: Float[Array, " D"]) -> Float[Array, ""]:
        return log_joint_each(decoder, jax.tree.map(lambda leaf: leaf[None], x), z[None])[0]

    value_N, gradient_N = jax.vmap(jax.value_and_grad(log_joint, argnums=1))(x_N, z_N)
    return Derivatives(value_N, gradient_N, -jax.vmap(jax.hessian(log_joint, argnums=1))(x_N, z_N))
