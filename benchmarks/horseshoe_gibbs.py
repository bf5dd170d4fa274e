"""Reference draws of the horseshoe regression by Gibbs sampling: on it, NUTS diverges in 6 % of its transitions.

With beta_d ~ N(0, tau^2 lambda_d^2) and half-Cauchy scales written with auxiliary variables (Makalic and Schmidt, "A
simple sampler for the horseshoe estimator", 2016), all conditionals but that of sigma are normal or inverse gamma.
sigma has a Metropolis step: the proposal is its inverse gamma conditional under the prior p(sigma) = const.
"""

from __future__ import annotations

import numpy as np

CHAINS, BURN_IN, THIN = 64, 1000, 20


def gibbs(
    rng: np.random.Generator, count: int, x: np.ndarray, y: np.ndarray, tau_scale: float, prior: tuple[float, float]
) -> np.ndarray:
    """Thinned draws of CHAINS chains, one chain after another.

    Args:
        rng: random generator.
        count: number of draws, a multiple of CHAINS.
        x: predictors (n, d).
        y: outcomes (n,).
        tau_scale: scale of the half-Cauchy prior of tau; that of lambda is 1.
        prior: standard deviation of the normal prior of the intercept, and scale of the half-normal prior of sigma.

    Returns:
        Draws (count, 2 d + 3) of (intercept, log lambda, log sigma, log tau, z) with z = beta / (tau lambda).
    """
    design = np.concatenate([np.ones((len(y), 1)), x], axis=1).astype(np.float64)
    gram, moment, (rows, columns) = design.T @ design, design.T @ y, x.shape

    def inverse_gamma(shape: float, rate: np.ndarray) -> np.ndarray:
        return rate / rng.gamma(shape, size=rate.shape)

    lambda2, nu = np.ones((CHAINS, columns)), np.ones((CHAINS, columns))
    tau2, xi, sigma2 = (np.full(CHAINS, value) for value in (tau_scale**2, 1.0, float(y.var())))
    kept = []
    for t in range(BURN_IN + THIN * (count // CHAINS)):
        variances = np.concatenate([np.full((CHAINS, 1), prior[0] ** 2), lambda2 * tau2[:, None]], axis=1)
        precision = gram / sigma2[:, None, None]
        precision[:, range(columns + 1), range(columns + 1)] += 1 / variances
        factor = np.linalg.cholesky(precision)
        upper, noise = factor.transpose(0, 2, 1), rng.normal(size=(CHAINS, columns + 1, 1))
        half = np.linalg.solve(factor, np.broadcast_to(moment[:, None], noise.shape) / sigma2[:, None, None])
        beta = np.linalg.solve(upper, half + noise)[..., 0]
        squares = beta[:, 1:] ** 2
        lambda2 = inverse_gamma(1, 1 / nu + squares / (2 * tau2[:, None]))
        nu = inverse_gamma(1, 1 + 1 / lambda2)
        tau2 = inverse_gamma((columns + 1) / 2, 1 / xi + (squares / lambda2).sum(1) / 2)
        xi = inverse_gamma(1, 1 / tau_scale**2 + 1 / tau2)
        error = ((y - beta @ design.T) ** 2).sum(1)
        proposed = inverse_gamma((rows - 1) / 2, error / 2)
        accepted = np.log(rng.uniform(size=CHAINS)) < (sigma2 - proposed) / (2 * prior[1] ** 2)
        sigma2 = np.where(accepted, proposed, sigma2)
        if t >= BURN_IN and (t - BURN_IN) % THIN == 0:
            z = beta[:, 1:] / np.sqrt(tau2[:, None] * lambda2)
            scales = (np.log(lambda2) / 2, np.log(sigma2)[:, None] / 2, np.log(tau2)[:, None] / 2)
            kept.append(np.concatenate([beta[:, :1], *scales, z], axis=1))
    return np.stack(kept, axis=1).reshape(count, -1)
