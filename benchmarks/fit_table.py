"""`civi.fit` with its defaults on ten models against NUTS, one call each.

    python benchmarks/fit_table.py [MODEL ...]

Errors are the largest over all unconstrained parameters: mean in posterior sd, and ratio of standard deviations.
"""

from __future__ import annotations

import sys

import jax
import numpy as np
from fit_models import MODELS
from fit_references import reference
from rich.console import Console
from rich.table import Table

import civi
from civi.diagnose.agreement import moment_errors

HEADER = ("model", "D", "mean error", "sd ratio", "within", "verdict", "why", "seconds")


def main() -> None:
    """Print the table."""
    table = Table(*HEADER)
    for name in sys.argv[1:] or MODELS:
        case = MODELS[name]
        posterior = civi.fit(case.model, *case.args, key=jax.random.key(0), **case.kwargs)
        diagnosis = posterior.diagnose(jax.random.key(1))
        draws = posterior.sample_unconstrained(jax.random.key(2), 20_000).astype(np.float64)
        chains = reference(case).draws
        errors = moment_errors(draws, chains.reshape(-1, chains.shape[-1]))
        low, high, mean = errors["sd_ratio_min"], errors["sd_ratio_max"], errors["mean_error_max"]
        within = mean <= 0.1 and low >= 0.9 and high <= 1.1
        reasons = ", ".join(f"{f.name} {f.value:.2g}" for f in diagnosis.findings if f.verdict != "good")
        row = (name, str(posterior.dim), f"{mean:.3f}", f"{low:.3f} to {high:.3f}", "yes" if within else "no")
        table.add_row(*row, diagnosis.verdict, reasons, f"{posterior.seconds:.1f}")
        print(*row, diagnosis.verdict, reasons, f"{posterior.seconds:.1f}", flush=True)
        print(diagnosis, flush=True)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
