"""`civi.fit` in 500 and 2,000 dimensions: seconds, peak memory and errors of the moments, against exact ones.

    python benchmarks/fit_large.py [TARGET ...] [--dims 500,2000] [--key 0]

Targets are a Gaussian with correlations of low rank and a condition number of about 10^4, and a normal hierarchical
model written centred, whose exact moments are known up to a quadrature over two parameters. Each fit runs in a process
of its own. Asked for are 5 minutes (fit, 4,000 draws and `diagnose`), 4 GB, and means and standard deviations within
0.15 sd.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from rich.console import Console
from rich.table import Table

import civi
from apart import measured_apart, report
from civi.bench.memory import peak_megabytes
from civi.bench.timing import clocked

RANK, JUDGED_DRAWS = 20, 10_000
SECONDS, MEGABYTES, TOLERANCE = 300, 4096, 0.15


class Large(NamedTuple):
    """A model with its arguments, and the exact moments of its draws as vectors in the order that `flat` gives."""

    model: Callable[..., None]
    arguments: dict[str, Any]
    mean: np.ndarray
    sd: np.ndarray
    flat: Callable[[dict[str, Any]], np.ndarray]


def low_rank_gaussian(mean: np.ndarray, factor: np.ndarray, variance: np.ndarray) -> None:
    """N(mean, factor factor' + diag(variance))."""
    numpyro.sample("x", dist.LowRankMultivariateNormal(mean, factor, variance))


def gaussian(dim: int) -> Large:
    """Coordinates of scale 0.5 to 2; in RANK random directions the variance is 10 to 1,000 times that of the rest."""
    rng = np.random.default_rng(0)
    scales = rng.permutation(np.geomspace(0.5, 2, dim))
    directions = np.linalg.qr(rng.normal(size=(dim, RANK)))[0]
    factor = scales[:, None] * directions * np.sqrt(np.geomspace(10, 1000, RANK))
    mean, variance = rng.normal(0, 3, dim), scales**2
    arguments = {"mean": mean, "factor": factor, "variance": variance}
    single = {name: jnp.asarray(value, jnp.float32) for name, value in arguments.items()}
    sd = np.sqrt(variance + (factor**2).sum(1))
    return Large(low_rank_gaussian, single, mean, sd, lambda draws: np.asarray(draws["x"], np.float64))


def normal_groups(error: np.ndarray, y: np.ndarray | None = None) -> None:
    """Group means theta_i ~ N(mu, tau), each observed once with a known error."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("groups", len(error)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, error), obs=y)


def hierarchical(dim: int) -> Large:
    """Groups with errors of 0.3 to 3 around means of sd 1; moments are of (mu, log tau, theta)."""
    rng = np.random.default_rng(1)
    error = rng.permutation(np.geomspace(0.3, 3, dim - 2)).astype(np.float32)
    y = rng.normal(2, np.sqrt(1 + error**2)).astype(np.float32)
    mean, sd = exact_moments(error.astype(np.float64), y.astype(np.float64))

    def flat(draws: dict[str, Any]) -> np.ndarray:
        parts = (draws["mu"][:, None], jnp.log(draws["tau"])[:, None], draws["theta"])
        return np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)

    return Large(normal_groups, {"error": error, "y": y}, mean, sd, flat)


def exact_moments(error: np.ndarray, y: np.ndarray, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and sd of (mu, log tau, theta) by quadrature over (mu, log tau).

    Given mu and tau, y_i ~ N(mu, tau^2 + e_i^2), and theta_i is normal with variance v_i = 1 / (1/tau^2 + 1/e_i^2) and
    mean m_i = v_i (mu / tau^2 + y_i / e_i^2). The grid covers 8 sd of mu and a factor of e^1.5 on both sides of tau =
    1; outside of it the posterior has no mass in double precision with 498 groups or more.
    """
    width = 8 * np.sqrt(1 + (error**2).mean()) / np.sqrt(len(y)) + 0.05
    centre = np.average(y, weights=1 / (1 + error**2))
    mus, logs = np.linspace(centre - width, centre + width, points), np.linspace(-1.5, 1.5, points)
    mu, log_tau = (grid.ravel() for grid in np.meshgrid(mus, logs, indexing="ij"))
    tau = np.exp(log_tau)
    log_p = -0.5 * (mu / 5) ** 2 - 0.5 * (tau / 2) ** 2 + log_tau
    for e, value in zip(error, y, strict=True):
        total = tau**2 + e**2
        log_p += -0.5 * np.log(total) - 0.5 * (value - mu) ** 2 / total
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    moments = [(mu @ weight, mu**2 @ weight), (log_tau @ weight, log_tau**2 @ weight)]
    for e, value in zip(error, y, strict=True):
        v = tau**2 * e**2 / (tau**2 + e**2)
        m = v * (mu / tau**2 + value / e**2)
        moments.append((m @ weight, (v + m**2) @ weight))
    means, squares = np.array(moments).T
    return means, np.sqrt(squares - means**2)


TARGETS: dict[str, Callable[[int], Large]] = {"gaussian": gaussian, "hierarchical": hierarchical}


def measure(name: str, dim: int, key: int) -> dict[str, Any]:
    """Fit, draw and diagnose; the errors of the moments are of further draws."""
    large = TARGETS[name](dim)
    before = peak_megabytes()

    def run() -> tuple[Any, Any]:
        posterior = civi.fit(large.model, key=jax.random.key(key), progress=False, **large.arguments)
        jax.block_until_ready(posterior.sample(jax.random.key(key + 1), 4000))
        return posterior, posterior.diagnose(jax.random.key(key + 2))

    (posterior, diagnosis), seconds, cpu = clocked(run)
    peak = peak_megabytes()
    draws = large.flat(posterior.sample(jax.random.key(key + 3), JUDGED_DRAWS))
    ratio = draws.std(0, ddof=1) / large.sd
    return {
        "seconds": seconds,
        "cpu": cpu,
        "fit_seconds": posterior.seconds,
        "megabytes": peak,
        "megabytes_before": before,
        "mean_error": float((np.abs(draws.mean(0) - large.mean) / large.sd).max()),
        "sd_ratio": [float(ratio.min()), float(ratio.max())],
        "verdict": diagnosis.verdict,
        "steps": len(posterior.history["step"]),
        "message": posterior.message,
    }


def row(name: str, dim: int, found: dict[str, Any]) -> tuple[str, ...]:
    """One row of the table."""
    low, high = found["sd_ratio"]
    right = found["mean_error"] <= TOLERANCE and 1 - TOLERANCE <= low <= high <= 1 + TOLERANCE
    within = right and found["seconds"] <= SECONDS and found["megabytes"] <= MEGABYTES
    times = (f"{found['seconds']:.0f}", f"{found['cpu']:.0f}", f"{found['megabytes']:.0f}")
    errors = (f"{found['mean_error']:.3f}", f"{low:.3f} to {high:.3f}", "yes" if within else "no")
    return (name, str(dim), *times, *errors, found["verdict"], str(found["steps"]))


def main() -> None:
    """Measure every target and dimension, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--dims", default="500,2000")
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--here", action="store_true", help="measure one target in this process")
    asked = parser.parse_args()
    names, dims = asked.targets or list(TARGETS), [int(dim) for dim in asked.dims.split(",")]
    if asked.here:
        report(measure(names[0], dims[0], asked.key))
        return
    table = Table("target", "D", "seconds", "CPU s", "MB", "mean error", "sd ratio", "within", "verdict", "steps")
    for name in names:
        for dim in dims:
            found = measured_apart(__file__, name, "--dims", str(dim), "--key", str(asked.key), "--here")
            print(*row(name, dim, found), found["message"], sep="  ", flush=True)
            table.add_row(*row(name, dim, found))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
