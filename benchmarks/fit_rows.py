"""From how many rows on is `civi.fit` sooner than NUTS? Logistic regression with 10^4 to 10^6 rows and D = 20.

    python benchmarks/fit_rows.py [--rows 10000,100000,1000000] [--batch 1000] [--key 0] [--no-nuts] [--out FILE]

civi uses all rows at 10,000 and a plate that subsamples `batch` rows above; NUTS (four vectorised chains of 1,000 +
1,000) uses all rows. Every measurement is a process of its own. From 10^5 rows on NUTS is timed on a tenth of its
warm-up and draws, starts at the mode, and its time without compilation is multiplied by ten; its error is then scaled
by 10^-1/2. Errors are those of the means and standard deviations, against `exact_moments`. Asked for are at least 10
times sooner than NUTS at 10^6 rows, and no slower at 10,000; the last lines say whether it is so. Each result is saved
to a JSON file immediately, so that a second call continues.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value
from rich.console import Console
from rich.table import Table

import civi
from apart import measured_apart, report
from civi.bench.memory import peak_megabytes
from civi.bench.timing import clocked
from civi.folders import cache_folder
from fit_measure import prepare, programs

COLUMNS, PRIOR, SMALL, TENTH = 20, 2.5, 10_000, 100_000
CHAINS, WARMUP, DRAWS = 4, 1000, 1000
ASKED = {10_000: 1.0, 1_000_000: 10.0}
Result = dict[str, Any]


def logistic(x: jax.Array, y: jax.Array, batch: int | None = None) -> None:
    """Logistic regression; with `batch`, the plate of rows subsamples."""
    beta = numpyro.sample("beta", dist.Normal(0, PRIOR).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=batch) as rows:
        picked = (x, y) if batch is None else (x[rows], y[rows])
        numpyro.sample("y", dist.Bernoulli(logits=picked[0] @ beta), obs=picked[1])


def synthetic(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal features and an intercept, coefficients N(0, 0.25)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    x[:, 0] = 1
    probability = 1 / (1 + np.exp(-x @ rng.normal(scale=0.5, size=COLUMNS)))
    return x, (rng.random(rows) < probability).astype(np.float32)


def exact_moments(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior mean and sd of beta, and the mode, in double precision.

    The mode b is Newton's, and the covariance S the inverse Hessian of the negative log posterior there. The mean has
    the next term of Laplace's expansion, mean_i = b_i - 1/2 sum_jkl S_ij T_jkl S_kl, with the third derivatives
    T_jkl = sum_n p (1 - p) (1 - 2 p) x_j x_k x_l. The term is up to 0.11 sd at 10^4 rows and 0.01
    sd at 10^6; what is left out is smaller by a factor of order D / N.
    """
    x = x.astype(np.float64)
    beta = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ beta))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(beta)) / PRIOR**2
        step = np.linalg.solve(hessian, x.T @ (y - p) - beta / PRIOR**2)
        beta = beta + step
        if np.abs(step).max() < 1e-12:
            break
    covariance = np.linalg.inv(hessian)
    spread = np.einsum("nj,nj->n", x @ covariance, x)
    third = x.T @ (p * (1 - p) * (1 - 2 * p) * spread)
    return beta - 0.5 * covariance @ third, np.sqrt(np.diag(covariance)), beta


def by_civi(rows: int, batch: int | None, key: int) -> Result:
    """`civi.fit` with its defaults, 4,000 draws and `diagnose`."""
    x, y = synthetic(rows)
    mean, sd, _ = exact_moments(x, y)

    def run() -> tuple[Any, Any]:
        data = {"x": jnp.asarray(x), "y": jnp.asarray(y)}
        posterior = civi.fit(logistic, batch=batch, key=jax.random.key(key), progress=False, **data)
        draws = posterior.sample(jax.random.key(key + 1), CHAINS * DRAWS)
        return draws["beta"], posterior.diagnose(jax.random.key(key + 2))

    (draws, diagnosis), seconds, cpu = clocked(run)
    return _errors(draws, mean, sd) | {"seconds": seconds, "cpu": cpu, "verdict": diagnosis.verdict}


def by_nuts(rows: int, key: int) -> Result:
    """NumPyro's NUTS; at TENTH rows or more it is timed on a tenth, as the docstring of this file says."""
    x, y = synthetic(rows)
    mean, sd, mode = exact_moments(x, y)
    share = 10 if rows >= TENTH else 1
    start = init_to_value(values={"beta": jnp.asarray(mode, jnp.float32)}) if share > 1 else init_to_uniform
    mcmc = MCMC(
        NUTS(logistic, init_strategy=start),
        num_warmup=WARMUP // share,
        num_samples=DRAWS // share,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )

    def run() -> jax.Array:
        mcmc.run(jax.random.PRNGKey(key), jnp.asarray(x), jnp.asarray(y), extra_fields=("num_steps",))
        return mcmc.get_samples()["beta"]

    prepare()
    with programs() as compiled:
        draws, seconds, cpu = clocked(run)
    found = _errors(draws, mean, sd)
    found["mean_error"] /= np.sqrt(share)
    whole = sum(compiled) + share * (seconds - sum(compiled))
    return found | {
        "seconds": whole,
        "cpu": cpu * whole / seconds,
        "verdict": f"{float(mcmc.get_extra_fields()['num_steps'].mean()):.0f} leapfrog steps a draw",
    }


def _errors(draws: Any, mean: np.ndarray, sd: np.ndarray) -> Result:
    draws = np.asarray(draws, np.float64)
    ratio = draws.std(0, ddof=1) / sd
    error = float((np.abs(draws.mean(0) - mean) / sd).max())
    return {"mean_error": error, "sd_ratio": [float(ratio.min()), float(ratio.max())], "megabytes": peak_megabytes()}


def measured(asked: argparse.Namespace, rows: int, method: str) -> Result:
    """The result of one method at one size, from the file if it is there."""
    file = asked.out or cache_folder("fit-rows") / "results.json"
    results: dict[str, Result] = json.loads(file.read_text()) if file.exists() else {}
    label = f"{rows} {method} batch {asked.batch} key {asked.key}"
    if label not in results:
        common = ("--rows", str(rows), "--batch", str(asked.batch), "--key", str(asked.key))
        results[label] = measured_apart(__file__, *common, "--here", method)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1))
    return results[label]


def answer(rows: int, civi_seconds: float, nuts_seconds: float) -> str:
    """How much sooner civi is, and whether this is what is asked at this size."""
    ratio = nuts_seconds / civi_seconds
    asked = f" (asked: at least {ASKED[rows]:g}: {'yes' if ratio >= ASKED[rows] else 'no'})" if rows in ASKED else ""
    return f"{rows:,} rows: NUTS takes {ratio:.1f} times as long as civi{asked}"


def main() -> None:
    """Measure civi and NUTS at every size, and print the table and the answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="10000,100000,1000000")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--no-nuts", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--here", choices=("civi", "NUTS"), help="measure one method in this process")
    asked = parser.parse_args()
    sizes = [int(rows) for rows in asked.rows.split(",")]
    if asked.here:
        batch = None if sizes[0] <= SMALL else asked.batch
        report(by_civi(sizes[0], batch, asked.key) if asked.here == "civi" else by_nuts(sizes[0], asked.key))
        return
    table, answers = Table("rows", "method", "seconds", "CPU s", "mean error", "sd ratio", "MB", "verdict"), []
    for rows in sizes:
        found = {method: measured(asked, rows, method) for method in ("civi", "NUTS")[: 1 if asked.no_nuts else 2]}
        for method, one in found.items():
            errors = (f"{one['mean_error']:.3f}", "{:.3f} to {:.3f}".format(*one["sd_ratio"]))
            cells = (f"{one['seconds']:.1f}", f"{one['cpu']:.1f}", *errors, f"{one['megabytes']:.0f}", one["verdict"])
            table.add_row(f"{rows:,}", method, *cells, end_section=method == "NUTS")
            print(f"{rows:,}", method, *cells, sep="  ", flush=True)
        if "NUTS" in found:
            answers.append(answer(rows, found["civi"]["seconds"], found["NUTS"]["seconds"]))
    Console(width=140).print(table)
    print(*answers, sep="\n")


if __name__ == "__main__":
    main()
