"""Models with shapes of their own: a random walk, a horseshoe, a latent process, an ODE, and a symmetric mixture."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from fit_case import ModelCase, Sites, single
from fit_models_hierarchical import inverse_logit
from horseshoe_gibbs import gibbs

HARES = "30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7"
LYNXES = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"
SUBSTEPS, HORSESHOE = 5, 22


def stochastic_volatility(y: np.ndarray) -> None:
    """Returns with Student t noise whose log scale is a Gaussian random walk."""
    sigma = numpyro.sample("sigma", dist.Exponential(10.0))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    walk = numpyro.sample("walk", dist.GaussianRandomWalk(scale=sigma, num_steps=len(y)))
    numpyro.sample("y", dist.StudentT(nu, 0.0, jnp.exp(walk)), obs=y)


def stochastic_volatility_innovations(y: np.ndarray) -> None:
    """The same posterior, in terms of the innovations of the walk."""
    sigma = numpyro.sample("sigma", dist.Exponential(10.0))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    step = numpyro.sample("step", dist.Normal(0, 1).expand([len(y)]).to_event(1))
    walk = numpyro.deterministic("walk", sigma * jnp.cumsum(step))
    numpyro.sample("y", dist.StudentT(nu, 0.0, jnp.exp(walk)), obs=y)


def stochastic_volatility_data(seed: int, length: int = 100) -> tuple[np.ndarray]:
    """A walk with steps of sd 0.2, and noise with 10 degrees of freedom."""
    rng = np.random.default_rng(seed)
    return (np.exp(np.cumsum(rng.normal(0, 0.2, length))) * rng.standard_t(10, length),)


def horseshoe(x: np.ndarray, y: np.ndarray | None = None) -> None:
    """Sparse linear regression with the horseshoe prior beta_d = z_d lambda_d tau."""
    columns = x.shape[-1]
    tau = numpyro.sample("tau", dist.HalfCauchy(0.3))
    scale = numpyro.sample("lambda", dist.HalfCauchy(1).expand([columns]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([columns]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    beta = numpyro.deterministic("beta", tau * scale * z)
    numpyro.sample("y", dist.Normal(intercept + x @ beta, sigma), obs=y)


def horseshoe_data(seed: int, rows: int = 100, columns: int = 20) -> dict[str, np.ndarray]:
    """Three coefficients that are not zero, and correlated predictors (0.5 between all)."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(rows, columns)) + rng.normal(size=(rows, 1))) / np.sqrt(2)
    beta = np.zeros(columns)
    beta[:3] = 2.0, -1.5, 0.6
    return {"x": x, "y": rng.normal(1 + x @ beta, 1)}


def horseshoe_draws(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws of the posterior by Gibbs sampling."""
    data = single(horseshoe_data(HORSESHOE))
    return gibbs(rng, count, data["x"], data["y"], tau_scale=0.3, prior=(5.0, 2.0))


def gp_classification(x: np.ndarray, y: np.ndarray | None = None) -> None:
    """Binary outcomes with a Gaussian process as their logit, whitened by the Cholesky factor of the kernel."""
    lengthscale = numpyro.sample("lengthscale", dist.LogNormal(0, 0.7))
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(2))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([len(x)]).to_event(1))
    kernel = jnp.exp(-0.5 * jnp.square((x[:, None] - x) / lengthscale))
    latent = amplitude * jnp.linalg.cholesky(kernel + 1e-4 * jnp.eye(len(x))) @ z
    numpyro.sample("y", dist.Bernoulli(logits=latent), obs=y)


def gp_classification_data(seed: int, points: int = 60) -> dict[str, np.ndarray]:
    """The logit is 2.5 sin(x) on [-5, 5]."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-5, 5, points))
    return {"x": x, "y": rng.binomial(1, inverse_logit(2.5 * np.sin(x)))}


def lotka_volterra(observed: np.ndarray) -> None:
    """Hares u and lynxes v: u' = (alpha - beta v) u, v' = (delta u - gamma) v, with lognormal measurement errors.

    Each year is SUBSTEPS steps of the classical Runge-Kutta method. Priors are those of posteriordb.
    """
    place, spread = jnp.array([1, 0.05, 1, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05])
    theta = numpyro.sample("theta", dist.TruncatedNormal(place, spread, low=0.0).to_event(1))
    initial = numpyro.sample("initial", dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]).to_event(1))
    alpha, beta, gamma, delta = theta

    def slope(state: jax.Array) -> jax.Array:
        u, v = state
        return jnp.stack([(alpha - beta * v) * u, (delta * u - gamma) * v])

    def substep(_: int, state: jax.Array) -> jax.Array:
        h = 1 / SUBSTEPS
        first = slope(state)
        second = slope(state + h / 2 * first)
        third = slope(state + h / 2 * second)
        fourth = slope(state + h * third)
        return state + h / 6 * (first + 2 * second + 2 * third + fourth)

    def year(state: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        after = jax.lax.fori_loop(0, SUBSTEPS, substep, state)
        return after, after

    _, later = jax.lax.scan(year, initial, None, length=len(observed) - 1)
    path = jnp.maximum(jnp.concatenate([initial[None], later]), 1e-6)
    numpyro.sample("observed", dist.LogNormal(jnp.log(path), sigma).to_event(2), obs=observed)


def lotka_volterra_data(seed: int) -> tuple[np.ndarray]:
    """Pelts of the Hudson's Bay Company, 1900 to 1920, in thousands; errors of 5 % are added unless the seed is 0."""
    pelts = np.stack([np.array(row.split(), float) for row in (HARES, LYNXES)], axis=1)
    return (pelts * np.exp(0.05 * np.random.default_rng(seed).normal(size=pelts.shape)) if seed else pelts,)


def unordered_mixture(y: np.ndarray) -> None:
    """Two exchangeable normal components: exchanging their labels gives the same density, so there are two modes."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(2, 5.0)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    component = dist.Normal(mu, sigma)
    numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs=weights), component), obs=y)


def unordered_mixture_data(seed: int, rows: int = 200) -> tuple[np.ndarray]:
    """Data from components N(-1.5, 1) with weight 0.6 and N(2.5, 0.8) with weight 0.4."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(size=rows) < 0.6
    return (rng.normal(np.where(first, -1.5, 2.5), np.where(first, 1, 0.8)),)


def ordered_components(sites: Sites) -> tuple[Sites, jax.Array]:
    """The draw with its components in the order of their means, and whether they were exchanged for it."""
    order = jnp.argsort(sites["mu"])
    return {name: sites[name][order] for name in ("weights", "mu", "sigma")}, order[0]


CASES = (
    ModelCase(
        "stochastic-volatility",
        stochastic_volatility,
        stochastic_volatility_data,
        21,
        "random walk of 100 steps",
        reference_model=stochastic_volatility_innovations,
    ),
    ModelCase(
        "horseshoe",
        horseshoe,
        horseshoe_data,
        HORSESHOE,
        "20 coefficients, Cauchy tails",
        horseshoe_draws,
        rule="quantiles",
    ),
    ModelCase("gp-classification", gp_classification, gp_classification_data, 23, "60 points"),
    ModelCase("lotka-volterra", lotka_volterra, lotka_volterra_data, 0, "hares and lynxes, Runge-Kutta"),
    ModelCase(
        "unordered-mixture",
        unordered_mixture,
        unordered_mixture_data,
        25,
        "two modes by symmetry",
        canonical=ordered_components,
        modes=2,
    ),
)
