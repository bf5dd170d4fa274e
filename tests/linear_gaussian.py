"""The linear-Gaussian case: z = eps W + b + S u is Gaussian, so log q, ELBO and gradient have closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from civi.family import CholeskyGaussian, DiagonalGaussian, GaussianNoise, MixingNetwork, SemiImplicit
from civi.parts import split
from civi.problem import PosteriorProblem

WEIGHT = jnp.array([[0.9, -0.4], [0.3, 0.7], [-0.2, 0.5]])
BIAS = jnp.array([0.5, -0.3])
LOG_SCALE = jnp.log(jnp.array([0.8, 0.6]))
LOWER = jnp.array([[0.0, 0.0], [0.35, 0.0]])


class GaussianTarget(eqx.Module):
    """N(mean, covariance) times a constant, so that the density is not normalised."""

    mean: jax.Array
    covariance: jax.Array
    log_constant: float = eqx.field(static=True, default=0.7)

    @property
    def dim(self) -> int:
        return self.mean.size

    def log_prob(self, z):
        return jax.scipy.stats.multivariate_normal.logpdf(z, self.mean, self.covariance) + self.log_constant


def gaussian_target() -> GaussianTarget:
    return GaussianTarget(jnp.array([-0.2, 0.6]), jnp.array([[1.5, 0.4], [0.4, 0.9]]))


def linear_family(conditional: str = "diagonal", noise_scale: float = 1.3) -> SemiImplicit:
    """A mixing network without hidden layers from R^3 to R^2 and a Gaussian conditional."""
    explicit = {"diagonal": DiagonalGaussian(LOG_SCALE), "cholesky": CholeskyGaussian(LOWER, LOG_SCALE)}[conditional]
    return SemiImplicit(GaussianNoise(3, noise_scale), MixingNetwork((WEIGHT,), (BIAS,), "relu"), explicit)


def mean_and_covariance(family: SemiImplicit) -> tuple[jax.Array, jax.Array]:
    """Moments of q: b and s^2 W^T W + S S^T."""
    (weight,), (bias,) = family.mixing.weights, family.mixing.biases
    explicit = family.conditional
    diagonal = isinstance(explicit, DiagonalGaussian)
    factor = jnp.diag(jnp.exp(explicit.log_scale)) if diagonal else explicit.cholesky
    return bias, family.noise.scale**2 * weight.T @ weight + factor @ factor.T


def log_q(family: SemiImplicit, z) -> np.ndarray:
    """Exact log density of q at each row of z, in float64."""
    mean, covariance = (np.asarray(moment, np.float64) for moment in mean_and_covariance(family))
    return stats.multivariate_normal(mean, covariance).logpdf(np.asarray(z, np.float64))


def neg_elbo(family: SemiImplicit, target: GaussianTarget) -> jax.Array:
    """Exact E_q[log q - log p] = KL(q || p) - log constant."""
    mean, covariance = mean_and_covariance(family)
    apart = target.mean - mean
    trace = jnp.trace(jnp.linalg.solve(target.covariance, covariance))
    distance = apart @ jnp.linalg.solve(target.covariance, apart)
    log_volumes = jnp.linalg.slogdet(target.covariance)[1] - jnp.linalg.slogdet(covariance)[1]
    return 0.5 * (trace + distance - mean.size + log_volumes) - target.log_constant


def exact_gradient(problem: PosteriorProblem) -> PosteriorProblem:
    """Exact gradient of the negative ELBO with respect to theta."""
    params, fixed = split(problem)

    def objective(params):
        whole = eqx.combine(params, fixed)
        return neg_elbo(whole.family, whole.target)

    return jax.grad(objective)(params)
