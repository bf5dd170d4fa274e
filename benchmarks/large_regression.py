"""A regression with a million rows: peak memory, seconds, and errors against the Laplace approximation.

    python benchmarks/large_regression.py [--rows 1000000] [--columns 20] [--batch 1000] [--steps STEPS]

With a million rows the posterior is Gaussian to about 0.001 sd, so the Laplace approximation from all rows is exact.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from civi.bench.memory import peak_megabytes
from civi.bench.timing import clocked
from civi.bench.workloads import default_settings
from civi.problem import make_problem
from civi.problem.target import LogisticRegression, outward
from civi.solver import Trained, train


def synthetic(rows: int, columns: int) -> LogisticRegression:
    """Synthetic data: standard normal features and an intercept, coefficients N(0, 0.25)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    x[:, 0] = 1
    probability = 1 / (1 + np.exp(-x @ rng.normal(scale=0.5, size=columns)))
    return LogisticRegression(jnp.asarray(x), jnp.asarray(rng.random(rows) < probability, jnp.float32))


def main() -> None:
    """Fit, and print memory, times and errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--steps", type=int, help="number of steps; the default recipe's by default")
    options = parser.parse_args()
    target = synthetic(options.rows, options.columns)
    shape = f"{options.rows} rows, {options.columns} columns, batches of {options.batch}"
    print(f"{shape}; data: peak {peak_megabytes():.0f} MB")

    settings = default_settings("regression", "civi")
    problem_settings = replace(settings.problem, batch=options.batch)
    steps = options.steps or settings.solver.steps
    framed, pilot_seconds, _ = clocked(lambda: settings.pilot.look(target))
    print(f"pilot on all rows: {pilot_seconds:.1f} s, peak {peak_megabytes():.0f} MB")

    def fit() -> Trained:
        problem = make_problem(settings.family, framed, jax.random.key(0), problem_settings)
        return train(replace(settings.solver, steps=steps), problem, jax.random.key(1))

    trained, seconds, _ = clocked(fit)
    of_step = f"{1000 * trained.seconds / steps:.2f} ms per step"
    print(f"fit: {pilot_seconds + seconds:.1f} s in total, {of_step}, peak {peak_megabytes():.0f} MB")

    draws = np.asarray(outward(framed, trained.problem.family.sample(jax.random.key(2), 20_000)))
    factor = np.asarray(framed.frame.factor)
    sd = np.sqrt((factor**2).sum(1))
    ratio, error = draws.std(0) / sd, np.abs(draws.mean(0) - np.asarray(framed.frame.location)) / sd
    exact = factor @ factor.T / np.outer(sd, sd)
    correlation = np.abs(np.corrcoef(draws.T) - exact).max()
    print(f"sd ratio {ratio.min():.3f} to {ratio.max():.3f}")
    print(f"largest mean error {error.max():.3f} sd, largest correlation error {correlation:.3f}")


if __name__ == "__main__":
    main()
