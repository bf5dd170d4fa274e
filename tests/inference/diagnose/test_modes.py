"""Laplace approximations of the posteriors of an autoencoder against exact posteriors and a density with two modes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from autoencoding import SD, A, B, LinearDecoder, X
from civi.inference.diagnose.modes import Gaussians, laplace_approximations


def test_the_approximation_of_a_linear_model_is_its_posterior():
    """p(z | x) = N(C A'(x - b) / s^2, C) with C = (I + A'A / s^2)^-1."""
    found = laplace_approximations(LinearDecoder(jnp.asarray(A), jnp.asarray(B)), np.float32(X), np.zeros((len(X), 2)))
    covariance = np.linalg.inv(np.eye(2) + A.T @ A / SD**2)
    np.testing.assert_allclose(found.mode_N, (X - B) @ A @ covariance / SD**2, atol=1e-4)
    scaled_N = found.axes_N * found.sd_N[:, None]
    np.testing.assert_allclose(scaled_N @ scaled_N.swapaxes(1, 2), np.tile(covariance, (len(X), 1, 1)), atol=1e-4)


def test_density_and_draws_agree_with_scipy():
    rng = np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    one = Gaussians(*(np.float32(part)[None] for part in (rng.normal(size=3), axes, np.array([0.5, 1.0, 2.0]))))
    covariance = axes @ np.diag([0.25, 1.0, 4.0]) @ axes.T
    z = rng.normal(size=(5, 3))
    expected = stats.multivariate_normal(one.mode_N[0], covariance).logpdf(z)
    np.testing.assert_allclose(one.log_prob(jnp.asarray(z, jnp.float32)[None])[0], expected, rtol=1e-4)
    draws = np.asarray(one.draw(jax.random.key(0), 20_000))[0]
    error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / 20_000)
    assert (np.abs(np.cov(draws.T) - covariance) < 4.5 * error).all()


class TwoModes(eqx.Module):
    """log p(x | z) = -8 (z^2 - 1)^2, whose curvature is negative between the modes."""

    def log_prob_each(self, x_J, z_J):
        return -8 * ((z_J**2 - 1) ** 2).sum(-1)


def test_newton_steps_ascend_where_the_curvature_is_negative():
    """d/dz [-z^2/2 - 8 (z^2 - 1)^2] = 0 at z^2 = 1 - 1/32, where minus the second derivative is 1 + 96 z^2 - 32."""
    found = laplace_approximations(TwoModes(), np.zeros((3, 1), np.float32), np.array([[0.1], [-0.3], [2.0]]))
    mode = np.sqrt(1 - 1 / 32)
    np.testing.assert_allclose(found.mode_N[:, 0], [mode, -mode, mode], atol=1e-4)
    np.testing.assert_allclose(found.sd_N[:, 0], (1 + 96 * mode**2 - 32) ** -0.5, rtol=1e-3)
