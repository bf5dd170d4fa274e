"""Ten small models: the first half of fit_models.py.

The priors are those of posteriordb for the models that it has.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from scipy.stats import random_correlation

from fit_case import ModelCase, flat


def eight_schools_centred(sigma: np.ndarray, y: np.ndarray | None = None) -> None:
    """The centred parameterisation: a funnel in tau and the effects theta."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def eight_schools_noncentred(sigma: np.ndarray, y: np.ndarray | None = None) -> None:
    """The non-centred parameterisation: the same posterior of mu, tau and theta = mu + tau z."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def eight_schools_data(seed: int) -> dict[str, np.ndarray]:
    """The schools' data with seed 0; with other seeds, the schools in another order."""
    order = np.random.default_rng(seed).permutation(8) if seed else np.arange(8)
    sigma, y = np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    return {"sigma": sigma[order], "y": y[order]}


def kidscore_interaction(mom_hs: np.ndarray, mom_iq: np.ndarray, kid_score: np.ndarray | None = None) -> None:
    """Linear regression on raw predictors of order 0.5 and 100, with a flat prior on beta."""
    beta = numpyro.sample("beta", flat(constraints.real_vector, 4))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    mean = beta[0] + beta[1] * mom_hs + beta[2] * mom_iq + beta[3] * mom_hs * mom_iq
    numpyro.sample("kid_score", dist.Normal(mean, sigma), obs=kid_score)


def kidscore_data(seed: int, rows: int = 434) -> dict[str, np.ndarray]:
    """Data drawn from the published coefficients, because the survey itself is not among our files."""
    rng = np.random.default_rng(seed)
    mom_hs = rng.binomial(1, 0.79, rows).astype(float)
    mom_iq = rng.normal(100, 15, rows)
    mean = -11.5 + 51.3 * mom_hs + 1.1 * mom_iq - 0.5 * mom_hs * mom_iq
    return {"mom_hs": mom_hs, "mom_iq": mom_iq, "kid_score": rng.normal(mean, 18)}


def autoregression(y: np.ndarray, order: int = 5) -> None:
    """Each y[t] given the preceding `order` values; the first `order` values are not modelled."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([order]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    before = np.stack([y[order - lag : len(y) - lag] for lag in range(1, order + 1)], axis=-1)
    numpyro.sample("y", dist.Normal(alpha + before @ beta, sigma), obs=y[order:])


def autoregression_data(seed: int, length: int = 200, burn_in: int = 200) -> tuple[np.ndarray]:
    """A stationary AR(5) series: the roots of its characteristic polynomial have modulus at most 0.89."""
    rng = np.random.default_rng(seed)
    beta = np.array([0.7, 0.3, -0.2, 0.2, -0.3])
    y = np.zeros(length + burn_in)
    for t in range(len(beta), len(y)):
        y[t] = 0.5 + beta @ y[t - len(beta) : t][::-1] + rng.normal()
    return (y[burn_in:],)


def garch11(y: np.ndarray, sigma1: float) -> None:
    """GARCH(1, 1) with flat priors on mu, alpha0 and the triangle alpha1 + beta1 < 1.

    The support of beta1 depends on alpha1.
    """
    mu = numpyro.sample("mu", flat(constraints.real))
    alpha0 = numpyro.sample("alpha0", flat(constraints.positive))
    alpha1 = numpyro.sample("alpha1", dist.Beta(1, 2))
    beta1 = numpyro.sample("beta1", dist.Uniform(0, 1 - alpha1))

    def step(variance: jax.Array, square: jax.Array) -> tuple[jax.Array, jax.Array]:
        return alpha0 + alpha1 * square + beta1 * variance, variance

    _, variance = jax.lax.scan(step, jnp.full_like(alpha0, sigma1**2), jnp.square(y - mu))
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(variance)), obs=y)


def garch11_data(seed: int, length: int = 200) -> dict[str, Any]:
    """Data drawn with mu = 5, alpha0 = 1.5, alpha1 = 0.5, beta1 = 0.3, near the posterior means of posteriordb."""
    rng = np.random.default_rng(seed)
    y, variance = np.zeros(length), 0.25
    for t in range(length):
        y[t] = rng.normal(5, np.sqrt(variance))
        variance = 1.5 + 0.5 * (y[t] - 5) ** 2 + 0.3 * variance
    return {"y": y, "sigma1": 0.5}


def hierarchical_logistic(x: np.ndarray, group: np.ndarray, groups: int, y: np.ndarray | None = None) -> None:
    """Logistic regression with one intercept per group, non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([x.shape[-1]]).to_event(1))
    with numpyro.plate("group", groups):
        offset = numpyro.sample("offset", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=mu + tau * offset[group] + x @ beta), obs=y)


def hierarchical_logistic_data(seed: int, rows: int = 240, groups: int = 10) -> dict[str, Any]:
    """Data with standard normal predictors, groups of equal size, and between-group sd 0.8."""
    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=(rows, 4)), np.arange(rows) % groups
    logits = -0.5 + 0.8 * rng.normal(size=groups)[group] + x @ np.array([1.0, -0.7, 0.3, 0.0])
    return {"x": x, "group": group, "groups": groups, "y": rng.binomial(1, 1 / (1 + np.exp(-logits)))}


def gaussian_process(x: np.ndarray, y: np.ndarray | None = None) -> None:
    """Hyperparameters of a squared-exponential kernel, with jitter for the Cholesky factor in float32."""
    lengthscale = numpyro.sample("lengthscale", dist.LogNormal(0, 1))
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(2))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    kernel = jnp.exp(-0.5 * jnp.square((x[:, None] - x) / lengthscale))
    eye = jnp.eye(len(x))
    covariance = amplitude**2 * (kernel + 1e-5 * eye) + noise**2 * eye
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), covariance), obs=y)


def gaussian_process_data(seed: int, points: int = 40) -> dict[str, np.ndarray]:
    """A sum of two sines with noise of sd 0.3."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-5, 5, points))
    return {"x": x, "y": np.sin(x) + 0.5 * np.sin(2.3 * x) + 0.3 * rng.normal(size=points)}


def normal_mixture(y: np.ndarray) -> None:
    """Two normal components with ordered means and N(0, 2) priors on them; the assignments are marginalised."""
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    mu = numpyro.sample("mu", flat(constraints.ordered_vector, 2))
    numpyro.factor("mu_prior", dist.Normal(0, 2).log_prob(mu).sum())
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    weights = dist.Categorical(probs=jnp.stack([theta, 1 - theta]))
    numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(mu, sigma)), obs=y)


def normal_mixture_data(seed: int, rows: int = 500) -> tuple[np.ndarray]:
    """Data from components N(-2.75, 1) with weight 0.6 and N(2.75, 1) with weight 0.4."""
    rng = np.random.default_rng(seed)
    return (rng.normal(np.where(rng.uniform(size=rows) < 0.6, -2.75, 2.75), 1),)


def funnel(dim: int) -> None:
    """Neal's funnel: the scale of x varies from exp(-4) to exp(4) within the central 99 % of v."""
    v = numpyro.sample("v", dist.Normal(0, 3))
    numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([dim - 1]).to_event(1))


def funnel_draws(rng: np.random.Generator, count: int, dim: int = 10) -> np.ndarray:
    """Independent draws of the funnel; the first coordinate is v."""
    v = rng.normal(0, 3, (count, 1))
    return np.concatenate([v, np.exp(v / 2) * rng.normal(size=(count, dim - 1))], axis=1)


def gaussian(mean: np.ndarray, scale_tril: np.ndarray) -> None:
    """A normal distribution with full covariance."""
    numpyro.sample("x", dist.MultivariateNormal(mean, scale_tril=scale_tril))


def gaussian_parameters(seed: int, dim: int = 50, condition: float = 300.0) -> tuple[np.ndarray, np.ndarray]:
    """Mean and Cholesky factor, with scales from 1e-3 to 1e3 and a correlation matrix of this condition number."""
    rng = np.random.default_rng(seed)
    eigenvalues = np.geomspace(1, condition, dim)
    correlation = random_correlation.rvs(dim * eigenvalues / eigenvalues.sum(), random_state=rng)
    scales = np.geomspace(1e-3, 1e3, dim)
    mean = scales * rng.choice([-1, 1], dim) * rng.uniform(1, 4, dim)
    return mean, scales[:, None] * np.linalg.cholesky(correlation)


def gaussian_draws(rng: np.random.Generator, count: int) -> np.ndarray:
    """Independent draws of the Gaussian."""
    mean, scale_tril = gaussian_parameters(7)
    return mean + rng.normal(size=(count, len(mean))) @ scale_tril.T


CENTRED, NONCENTRED = "hierarchical, funnel-shaped", "hierarchical, nearly normal"
CASES = (
    ModelCase("eight-schools-centred", eight_schools_centred, eight_schools_data, 0, CENTRED, noncentred=("theta",)),
    ModelCase("eight-schools-noncentred", eight_schools_noncentred, eight_schools_data, 0, NONCENTRED),
    ModelCase("kidscore-interaction", kidscore_interaction, kidscore_data, 1, "regression, raw predictors"),
    ModelCase("ar5", autoregression, autoregression_data, 2, "autoregression of order 5"),
    ModelCase("garch11", garch11, garch11_data, 3, "volatility, nested constraints"),
    ModelCase(
        "hierarchical-logistic", hierarchical_logistic, hierarchical_logistic_data, 4, "10 groups, 4 coefficients"
    ),
    ModelCase("gaussian-process", gaussian_process, gaussian_process_data, 5, "three hyper-parameters"),
    ModelCase("normal-mixture", normal_mixture, normal_mixture_data, 6, "two components, ordered means"),
    ModelCase("funnel", funnel, lambda _: (10,), 0, "Neal's funnel", funnel_draws, rule="quantiles", normalised=True),
    ModelCase("gaussian-50", gaussian, gaussian_parameters, 7, "scales from 1e-3 to 1e3", gaussian_draws),
)
