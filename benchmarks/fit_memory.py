"""Memory of many fits in one process, which must not grow after the tenth.

    python benchmarks/fit_memory.py                      # 100 fits of models that all differ
    python benchmarks/fit_memory.py --models same        # 100 fits of one model to other data

Prints the mean resident memory of every ten fits, and the growth from the second ten to the largest of the later ones.
The last programs are kept, and their sizes depend on the model, so single readings vary by several per cent, and the
largest of them is printed too; the means, which cover models of all sizes, show a trend if there is one.
"""

from __future__ import annotations

import argparse
import gc
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import civi
from civi.errors import require

TEN, MB = 10, 2**20


def main() -> None:
    """Fit, measure and print; exit with 1 if memory grew by more than the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--models", choices=["different", "same"], default="different")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=0.05, help="largest growth after the second ten fits")
    options = parser.parse_args()
    require(options.fits >= 2 * TEN, f"--fits must be at least {2 * TEN}, not {options.fits}")
    memory: list[int] = []
    for i in range(options.fits):
        one_fit(i if options.models == "different" else 0, i, options.steps)
        gc.collect()
        memory.append(resident())
        if (i + 1) % TEN == 0:
            print(f"fits {i + 2 - TEN:>3} to {i + 1:>3}: mean {mean_of(memory, i // TEN) / MB:5.0f} MB", flush=True)
    single = max(memory[TEN - 1 :]) / memory[TEN - 1] - 1
    print(f"largest single reading after fit {TEN}: {100 * single:+.1f} % of {memory[TEN - 1] / MB:.0f} MB")
    second, *later = (mean_of(memory, i) for i in range(1, options.fits // TEN))
    growth = max([second, *later]) / second - 1
    print(f"largest mean of ten after fit {2 * TEN}: {100 * growth:+.1f} % of {second / MB:.0f} MB")
    sys.exit(growth > options.tolerance)


def mean_of(memory: list[int], ten: int) -> float:
    """The mean of the readings in one group of ten fits, counted from 0."""
    return sum(memory[ten * TEN : (ten + 1) * TEN]) / TEN


def one_fit(number: int, seed: int, steps: int) -> None:
    """Fit, sample and diagnose a hierarchical regression; its operations and shapes depend on `number`."""
    rng, columns = np.random.default_rng(seed), 2 + number % 10
    x = rng.normal(size=(60, columns))
    y = x @ rng.normal(size=columns) + rng.normal(size=60)
    posterior = civi.fit(model_of(number), x, y, key=seed, steps=steps, progress=False)
    posterior.sample(seed, 1000)
    posterior.diagnose(seed)


def model_of(number: int) -> Callable[..., Any]:
    """A new function at each call, as in a notebook whose cell is run again."""

    def model(x: Any, y: Any) -> None:
        scale = numpyro.sample("scale", dist.HalfNormal(1.0 + number))
        with numpyro.plate("columns", x.shape[1]):
            beta = numpyro.sample("beta", dist.Normal(0, scale))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(jnp.asarray(x) @ beta, 1.0), obs=y)

    return model


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "the fit has not converged")
    main()
