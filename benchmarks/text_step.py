"""CPU seconds of a training step on Penn Treebank, the mean over random batches of all lengths.

    python benchmarks/text_step.py --steps 60                              # the default recipe
    python benchmarks/text_step.py --set family.latent_input=gates         # with other settings

The time does not include compilation. CPU seconds hardly depend on how busy the machine is.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from civi.experiment.plan import Plan
from civi.parts import split
from civi.problem import make_problem
from civi.solver.loop import run_block, start

SEED = 3


def main() -> None:
    """Train for a few steps and print the time of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--solver", default="civi")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    plan = Plan.make("ptb", options.solver, "default", SEED, None, options.set)
    family_key, train_key, *_ = plan.keys(SEED)
    problem = make_problem(plan.settings.family, plan.source(), family_key, plan.settings.problem)
    state, solver, fixed = start(plan.settings.solver, problem, train_key), plan.settings.solver, split(problem)[1]
    compiled = cast(Any, eqx.filter_jit(run_block)).lower(solver, fixed, state, jnp.asarray(1)).compile()
    state, _ = jax.block_until_ready(compiled(solver, fixed, state, jnp.asarray(1)))
    cpu, wall = time.process_time(), time.perf_counter()
    _, rows = jax.block_until_ready(compiled(solver, fixed, state, jnp.asarray(options.steps)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{cpu / options.steps:.3f} CPU seconds per step ({wall / options.steps:.3f} on the clock)")
    print(f"mean of the objective over these steps: {np.asarray(rows)[: options.steps, 0].mean():.4f}")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
