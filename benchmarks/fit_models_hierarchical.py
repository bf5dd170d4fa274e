"""Hierarchical models with 65 to 300 parameters, written centred: each effect is drawn around its population's mean.

For some of their sites the centred parameterisation is the right one and for others the non-centred one, because some
groups have many observations and others few.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from fit_case import ModelCase


def varying_slopes(x: np.ndarray, group: np.ndarray, groups: int, y: np.ndarray | None = None) -> None:
    """Linear regression with an intercept and a slope for each group."""
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfNormal(2).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("group", groups):
        intercept = numpyro.sample("intercept", dist.Normal(mu[0], tau[0]))
        slope = numpyro.sample("slope", dist.Normal(mu[1], tau[1]))
    numpyro.sample("y", dist.Normal(intercept[group] + slope[group] * x, sigma), obs=y)


def varying_slopes_data(seed: int, groups: int = 30, rows: int = 300) -> dict[str, Any]:
    """Groups of 3 to 30 rows; the intercepts vary much (sd 1.5) and the slopes less (sd 0.5)."""
    rng = np.random.default_rng(seed)
    group = uneven_groups(groups, rows)
    x, intercept, slope = rng.normal(size=rows), rng.normal(2, 1.5, groups), rng.normal(-0.5, 0.5, groups)
    y = rng.normal(intercept[group] + slope[group] * x, 1)
    return {"x": x, "group": group, "groups": groups, "y": y}


def item_response(person: np.ndarray, item: np.ndarray, persons: int, items: int, y: np.ndarray | None = None) -> None:
    """The two-parameter logistic model of item response: P(y = 1) = logit^-1(a_i (theta_p - b_i))."""
    mu_b = numpyro.sample("mu_b", dist.Normal(0, 2))
    tau_b = numpyro.sample("tau_b", dist.HalfCauchy(2))
    tau_a = numpyro.sample("tau_a", dist.HalfCauchy(1))
    with numpyro.plate("persons", persons):
        theta = numpyro.sample("theta", dist.Normal(0, 1))
    with numpyro.plate("items", items):
        a = numpyro.sample("a", dist.LogNormal(0, tau_a))
        b = numpyro.sample("b", dist.Normal(mu_b, tau_b))
    logits = a[item] * (theta[person] - b[item])
    numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def item_response_data(seed: int, persons: int = 110, items: int = 18) -> dict[str, Any]:
    """Every person answers every item; log discriminations have sd 0.5, difficulties mean 0.5 and sd 1."""
    rng = np.random.default_rng(seed)
    person, item = np.divmod(np.arange(persons * items), items)
    a, b, theta = rng.lognormal(0, 0.5, items), rng.normal(0.5, 1, items), rng.normal(size=persons)
    y = rng.binomial(1, inverse_logit(a[item] * (theta[person] - b[item])))
    return {"person": person, "item": item, "persons": persons, "items": items, "y": y}


def random_intercept_logistic(x: np.ndarray, group: np.ndarray, groups: int, y: np.ndarray | None = None) -> None:
    """Logistic regression with one intercept per group."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfCauchy(1))
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([x.shape[-1]]).to_event(1))
    with numpyro.plate("group", groups):
        alpha = numpyro.sample("alpha", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Bernoulli(logits=alpha[group] + x @ beta), obs=y)


def random_intercept_logistic_data(seed: int, groups: int = 95, rows: int = 760) -> dict[str, Any]:
    """Groups of 2 to 24 rows, three standard normal predictors, and between-group sd 0.9."""
    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=(rows, 3)), uneven_groups(groups, rows)
    logits = rng.normal(-0.5, 0.9, groups)[group] + x @ np.array([1.0, -0.5, 0.2])
    return {"x": x, "group": group, "groups": groups, "y": rng.binomial(1, inverse_logit(logits))}


def crossed_effects(row: np.ndarray, column: np.ndarray, rows: int, columns: int, y: np.ndarray | None = None) -> None:
    """Subjects and items: y = mu + a_row + b_column + noise."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau_a = numpyro.sample("tau_a", dist.HalfNormal(2))
    tau_b = numpyro.sample("tau_b", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("rows", rows):
        a = numpyro.sample("a", dist.Normal(0, tau_a))
    with numpyro.plate("columns", columns):
        b = numpyro.sample("b", dist.Normal(0, tau_b))
    numpyro.sample("y", dist.Normal(mu + a[row] + b[column], sigma), obs=y)


def crossed_effects_data(seed: int, rows: int = 80, columns: int = 41, count: int = 480) -> dict[str, Any]:
    """Six observations per row, each in a random column; sd 0.7 between rows, 1 between columns and 1 of the noise."""
    rng = np.random.default_rng(seed)
    row, column = np.arange(count) % rows, rng.integers(columns, size=count)
    mean = 3 + rng.normal(0, 0.7, rows)[row] + rng.normal(0, 1, columns)[column]
    return {"row": row, "column": column, "rows": rows, "columns": columns, "y": rng.normal(mean, 1)}


def hierarchical_poisson(x: np.ndarray, exposure: np.ndarray, count: np.ndarray | None = None) -> None:
    """Counts with one log rate per unit, drawn around a regression line."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 5))
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand([x.shape[-1]]).to_event(1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("unit", len(exposure)):
        log_rate = numpyro.sample("log_rate", dist.Normal(alpha + x @ beta, tau))
        numpyro.sample("count", dist.Poisson(jnp.exp(log_rate) * exposure), obs=count)


def hierarchical_poisson_data(seed: int, units: int = 296) -> dict[str, np.ndarray]:
    """Exposures from 0.5 to 30, so that counts are from 0 to some dozens; sd 0.5 between units."""
    rng = np.random.default_rng(seed)
    x, exposure = rng.normal(size=(units, 2)), np.exp(rng.uniform(np.log(0.5), np.log(30), units))
    rate = np.exp(rng.normal(0.3 + x @ np.array([0.5, -0.3]), 0.5))
    return {"x": x, "exposure": exposure, "count": rng.poisson(rate * exposure)}


def uneven_groups(groups: int, rows: int) -> np.ndarray:
    """The group of each row; sizes grow geometrically, the largest group being about ten times the smallest."""
    share = np.geomspace(1, 10, groups)
    return np.searchsorted(np.cumsum(share) / share.sum(), (np.arange(rows) + 0.5) / rows)


def inverse_logit(x: np.ndarray) -> np.ndarray:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


CASES = (
    ModelCase(
        "varying-slopes",
        varying_slopes,
        varying_slopes_data,
        11,
        "30 groups with intercept and slope",
        noncentred=("slope",),
    ),
    ModelCase(
        "random-intercept-logistic",
        random_intercept_logistic,
        random_intercept_logistic_data,
        12,
        "95 groups",
        noncentred=("alpha",),
    ),
    ModelCase("crossed-effects", crossed_effects, crossed_effects_data, 13, "80 rows, 41 columns", noncentred=("a",)),
    ModelCase("item-response", item_response, item_response_data, 14, "two-parameter logistic, 110 persons, 18 items"),
    ModelCase("hierarchical-poisson", hierarchical_poisson, hierarchical_poisson_data, 15, "296 rates"),
)
