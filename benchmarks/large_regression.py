"""A million rows: peak memory, seconds, and the error against the Laplace approximation, which is exact at this size.

    python benchmarks/large_regression.py [--rows 1000000] [--columns 20] [--batch 1000]

With a million rows the posterior is Gaussian to about 0.001 sd, so mode and curvature from all rows are the answer.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from civi.experiment.recipes import settings_for
from civi.problem.target import LogisticRegression, outward
from civi.solver import Model, train


def synthetic(rows: int, columns: int) -> LogisticRegression:
    """Standard normal features and an intercept, coefficients N(0, 0.25)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    x[:, 0] = 1
    probability = 1 / (1 + np.exp(-x @ rng.normal(scale=0.5, size=columns)))
    return LogisticRegression(jnp.asarray(x), jnp.asarray(rng.random(rows) < probability, jnp.float32))


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1000)
    options = parser.parse_args()
    target = synthetic(options.rows, options.columns)
    print(f"{options.rows} rows, {options.columns} columns, batches of {options.batch}; data: peak {_peak():.0f} MB")

    settings = settings_for("regression", "civi", "default")
    solver = replace(settings.solver, samples=replace(settings.solver.samples, batch=options.batch))
    begun = time.perf_counter()
    seen = settings.pilot.look(target)
    print(f"pilot on all rows: {time.perf_counter() - begun:.1f} s, peak {_peak():.0f} MB")
    family = settings.family.init(target.dim, jax.random.key(0))
    trained = train(solver, Model(family, seen), jax.random.key(1))
    seconds = time.perf_counter() - begun
    print(f"fit: {seconds:.1f} s in all, {1000 * trained.seconds / solver.steps:.2f} ms a step, peak {_peak():.0f} MB")

    draws = np.asarray(outward(seen, trained.model.family.sample(jax.random.key(2), 20_000)))
    factor = np.asarray(seen.frame.factor)
    sd = np.sqrt((factor**2).sum(1))
    ratio, error = draws.std(0) / sd, np.abs(draws.mean(0) - np.asarray(seen.frame.location)) / sd
    exact = factor @ factor.T / np.outer(sd, sd)
    correlation = np.abs(np.corrcoef(draws.T) - exact).max()
    print(f"sd ratio {ratio.min():.3f} to {ratio.max():.3f}")
    print(f"largest mean error {error.max():.3f} sd, largest correlation error {correlation:.3f}")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
