"""Effective draws per second of `posterior.refine` beside NUTS from a cold start.

    python benchmarks/refine_speed.py --models eight-schools-noncentred,varying-slopes --key 0 --out refine.json

Both use four vectorised chains with 1,000 draws each; NUTS has a warm-up of 1,000 transitions, refine of 100. The
effective size is the smallest over all elements of the model's latent sites. Seconds are measured twice: from a cold
start with all compilations, and again for other data of the same shapes. CPU seconds are beside wall seconds, because
other work on the machine affects them less.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from rich.table import Table

import civi
from civi.bench.timing import clocked
from civi.progress import console
from fit_case import ModelCase
from fit_measure import prepare, programs
from fit_models import MODELS

CHAINS, DRAWS, WARMUP = 4, 1000, 1000
DEFAULT = "eight-schools-noncentred,kidscore-interaction,varying-slopes"
Row = dict[str, Any]


def by_refine(case: ModelCase, key: int) -> Row:
    """A fit and `refine`."""
    with programs() as compiled:
        posterior, fit_seconds, fit_cpu = clocked(
            lambda: civi.fit(case.model, *case.args, key=key, progress=False, **case.kwargs)
        )
        chains, seconds, cpu = clocked(lambda: posterior.refine(key + 1, draws=DRAWS, chains=CHAINS))
    data = chains.to_datatree(0)["posterior"]
    latent = posterior.constrain.origin.sites.latent
    quality = _quality({name: data[name].values for name in latent})
    found = {"fit_seconds": fit_seconds, "fit_cpu": fit_cpu, "seconds": seconds, "cpu": cpu}
    return found | quality | {"divergences": chains.reference.divergences, "programs": len(compiled)}


def by_nuts(case: ModelCase, key: int) -> Row:
    """NUTS of NumPyro with its defaults."""

    def run() -> Any:
        mcmc = MCMC(
            NUTS(case.model),
            num_warmup=WARMUP,
            num_samples=DRAWS,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.PRNGKey(key), *case.args, **case.kwargs)
        return mcmc.get_samples(group_by_chain=True), mcmc.get_extra_fields()["diverging"].sum()

    with programs() as compiled:
        (draws, divergences), seconds, cpu = clocked(run)
    found = {"fit_seconds": 0.0, "fit_cpu": 0.0, "seconds": seconds, "cpu": cpu}
    return found | _quality(draws) | {"divergences": int(divergences), "programs": len(compiled)}


def _quality(draws: dict[str, Any]) -> Row:
    """The smallest effective size and the largest R-hat of all elements."""
    arrays = [np.asarray(value, np.float64) for value in draws.values()]
    return {
        "effective_size": float(min(np.min(effective_sample_size(array)) for array in arrays)),
        "r_hat": float(max(np.max(split_gelman_rubin(array)) for array in arrays)),
    }


def table_of(rows: list[Row]) -> Table:
    """Effective draws per second, of wall time and of CPU time."""
    columns = (
        "model",
        "method",
        "data",
        "ESS",
        "R-hat",
        "div",
        "fit s",
        "s",
        "ESS/s",
        "with fit",
        "ESS/CPU s",
        "with fit",
    )
    table = Table(*columns)
    for row in rows:
        size, whole, cpu = row["effective_size"], row["fit_seconds"] + row["seconds"], row["fit_cpu"] + row["cpu"]
        times = (f"{row['fit_seconds']:.1f}", f"{row['seconds']:.1f}")
        rates = (size / row["seconds"], size / whole, size / row["cpu"], size / cpu)
        names = (row["model"], row["method"], row["data"])
        quality = (f"{size:.0f}", f"{row['r_hat']:.3f}", str(row["divergences"]))
        table.add_row(*names, *quality, *times, *(f"{rate:.0f}" for rate in rates))
    return table


def main() -> None:
    """Measure the models one after another, and print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=DEFAULT)
    parser.add_argument("--key", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    prepare()
    rows: list[Row] = []
    for name in options.models.split(","):
        case = MODELS[name].fresh()
        for method, measure in {"refine": by_refine, "nuts": by_nuts}.items():
            jax.clear_caches()
            for data, one in {"first": case, "other": case.with_other_data()}.items():
                rows.append({"model": name, "method": method, "data": data, **measure(one, options.key)})
                print(json.dumps(rows[-1]), flush=True)
    console().print(table_of(rows))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
