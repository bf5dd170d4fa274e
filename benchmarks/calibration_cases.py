"""Targets with exact draws for diagnose_calibration.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

LogDensityOfZ = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True, eq=False)
class Case:
    """A target with exact draws.

    Attributes:
        name: name of the target.
        target: a log density or a NumPyro model.
        arguments: further arguments of `civi.fit`.
        draws: draws `count` exact samples (count, D) with `rng`.
        count: number of good fits of it.
        flat: maps the posterior's draws to an array (count, D).
    """

    name: str
    target: Callable[..., Any]
    arguments: Mapping[str, Any]
    draws: Callable[[np.random.Generator, int], np.ndarray]
    count: int
    flat: Callable[[Any], Any] = lambda draws: draws


def correlated(z: jax.Array) -> jax.Array:
    """A correlated Gaussian with scales 0.01, 1 and 50."""
    return -0.5 * jnp.sum((jnp.asarray(WHITENING) @ (z - jnp.asarray(MEAN))) ** 2)


def banana(z: jax.Array) -> jax.Array:
    """z_0 ~ N(0, 1), z_1 = z_0^2 + N(0, 1/2), z_2 ~ N(0, 1)."""
    return -0.5 * (z[0] ** 2 + (z[1] - z[0] ** 2) ** 2 / 0.5 + z[2] ** 2)


def student(z: jax.Array) -> jax.Array:
    """Independent Student t with 8 degrees of freedom in four dimensions."""
    return -4.5 * jnp.log1p(z**2 / 8).sum()


def skewed(z: jax.Array) -> jax.Array:
    """Logarithms of Gamma(a) variables, a = 1, 3 and 10, like a scale parameter on the log scale."""
    return (jnp.asarray(SHAPES) * z - jnp.exp(z)).sum()


def two_modes(z: jax.Array) -> jax.Array:
    """0.6 N((-3, 0), I / 2) + 0.4 N((3, 1), I / 2)."""
    away = [jnp.sum((z - jnp.asarray(place)) ** 2) for place in PLACES]
    return jnp.logaddexp(jnp.log(0.6) - away[0], jnp.log(0.4) - away[1])


def normal_groups(error: np.ndarray, spread: float, y: np.ndarray | None = None) -> None:
    """Group means theta_i ~ N(mu, tau), written centred and each observed with a known error."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(spread))
    with numpyro.plate("groups", len(error)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, error), obs=y)


def log_normal_groups(z: jax.Array, data: Mapping[str, Any]) -> jax.Array:
    """The same posterior as a log density of z = (mu, log tau, theta)."""
    mu, log_tau, theta = z[0], z[1], z[2:]
    tau = jnp.exp(log_tau)
    effects = -0.5 * jnp.square((theta - mu) / tau).sum() - len(data["y"]) * log_tau
    prior = -0.5 * jnp.square(mu / 5) - 0.5 * jnp.square(tau / data["spread"]) + log_tau
    return prior + effects - 0.5 * jnp.square((data["y"] - theta) / data["error"]).sum()


def collapsed(z: jax.Array, data: Mapping[str, Any]) -> jax.Array:
    """The neck of `log_normal_groups`: log tau is held at log(spread / 100), with sd 0.3."""
    return log_normal_groups(z, data) - 0.5 * jnp.square((z[1] - jnp.log(data["spread"] / 100)) / 0.3)


def normal_groups_draws(rng: np.random.Generator, count: int, data: Mapping[str, Any]) -> np.ndarray:
    """Exact draws of (mu, log tau, theta).

    With t_i = tau^2 + e_i^2, y_i ~ N(mu, t_i) given mu and tau. So mu given tau is normal with precision
    P = 1/25 + sum 1/t_i and mean m = sum(y_i / t_i) / P, and p(y | tau) = p(y | m, tau) p(m) / N(m; m, 1/P). log tau is
    drawn from a fine grid, and theta given mu and tau is normal.
    """
    y, error = (np.asarray(data[name], np.float64) for name in ("y", "error"))
    log_tau = np.log(data["spread"]) + np.linspace(-12, 2, 20_000)
    tau = np.exp(log_tau)
    total = tau[:, None] ** 2 + error**2
    precision = 1 / 25 + (1 / total).sum(1)
    centre = (y / total).sum(1) / precision
    log_p = -0.5 * (np.log(total) + (y - centre[:, None]) ** 2 / total).sum(1) - 0.5 * centre**2 / 25
    log_p += -0.5 * np.log(precision) - 0.5 * (tau / data["spread"]) ** 2 + log_tau
    weight = np.exp(log_p - log_p.max())
    picked = rng.choice(len(tau), count, p=weight / weight.sum())
    tau = tau[picked, None]
    mu = (centre[picked] + rng.normal(size=count) / np.sqrt(precision[picked]))[:, None]
    variance = 1 / (1 / tau**2 + 1 / error**2)
    theta = variance * (mu / tau**2 + y / error**2) + np.sqrt(variance) * rng.normal(size=(count, len(y)))
    return np.concatenate([mu, np.log(tau), theta], axis=1)


def flat_groups(draws: Mapping[str, Any]) -> np.ndarray:
    """Draws of `normal_groups` as vectors (mu, log tau, theta)."""
    return np.concatenate([draws["mu"][:, None], np.log(draws["tau"])[:, None], draws["theta"]], axis=1)


def intercepts(groups: int = 20) -> dict[str, Any]:
    """Averages of 4 to 12 observations of unit variance per group, around group means of sd 1."""
    rng = np.random.default_rng(0)
    error = 1 / np.sqrt(np.linspace(4, 12, groups))
    y = rng.normal(1, np.sqrt(1 + error**2))
    return {"error": error.astype(np.float32), "spread": 2.0, "y": y.astype(np.float32)}


def one_mode(z: jax.Array) -> jax.Array:
    """The first mode of `two_modes`."""
    return -jnp.sum((z - jnp.asarray(PLACES[0])) ** 2)


MEAN, SCALES = np.array([3.0, -1.0, 400.0]), np.array([0.01, 1.0, 50.0])
FACTOR = SCALES[:, None] * np.linalg.cholesky([[1.0, 0.8, 0.0], [0.8, 1.0, -0.3], [0.0, -0.3, 1.0]])
WHITENING = np.linalg.inv(FACTOR).astype(np.float32)
SHAPES, PLACES = (1.0, 3.0, 10.0), ((-3.0, 0.0), (3.0, 1.0))


def banana_draws(rng: np.random.Generator, count: int) -> np.ndarray:
    """Exact draws of the banana."""
    z = rng.normal(size=(count, 3))
    z[:, 1] = z[:, 0] ** 2 + np.sqrt(0.5) * z[:, 1]
    return z


SCHOOLS: dict[str, Any] = {
    "error": np.array([15.0, 10, 16, 11, 9, 11, 10, 18], np.float32),
    "spread": 10.0,
    "y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12], np.float32),
}
INTERCEPTS = intercepts()
CASES = (
    Case("Gaussian", correlated, {"dim": 3}, lambda rng, n: MEAN + rng.normal(size=(n, 3)) @ FACTOR.T, 3),
    Case("banana", banana, {"dim": 3}, banana_draws, 3),
    Case("Student t", student, {"dim": 4}, lambda rng, n: rng.standard_t(8, (n, 4)), 3),
    Case("log gamma", skewed, {"dim": 3}, lambda rng, n: np.log(rng.gamma(SHAPES, size=(n, 3))), 3),
    Case("schools", normal_groups, SCHOOLS, lambda rng, n: normal_groups_draws(rng, n, SCHOOLS), 4, flat_groups),
    Case(
        "intercepts", normal_groups, INTERCEPTS, lambda rng, n: normal_groups_draws(rng, n, INTERCEPTS), 4, flat_groups
    ),
)
