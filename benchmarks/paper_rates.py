"""The learning rates of the recipe `paper` that the paper does not give: the same search for every solver.

    python benchmarks/paper_rates.py [--kind toys] [--solvers sivi,uivi] [--steps N]

For every solver and every rate in GRID, train one task of each kind with the recipe `paper` for the paper's number of
steps (nodal: 200, images: 300), with a seed that no comparison uses. The score is the common estimate of neg_elbo, an
upper bound that no solver can drive below the truth; a run that is not finite, or so large that differences are lost
to rounding, has the score inf. The rate with the lowest score is the solver's in `civi.experiment.recipes.paper.RATES`;
on images, which are searched with a sixtieth of their steps, constant rates are at most 1e-3. The rates of a solver run
in one program.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from civi.experiment.plan import Plan
from civi.experiment.recipes.own_papers import OWN_PAPERS
from civi.experiment.recipes.paper import GRID, OWN_CONSTANTS
from civi.parts import split
from civi.problem import make_problem
from civi.settings import Choice
from civi.solver import SOLVERS, train
from civi.solver.loop import empty_history, start
from civi.update import UPDATES, Update

TASKS = {"toys": ("star", None), "regressions": ("nodal", 200), "autoencoders": ("mnist", 300)}
SEARCHED = [solver for solver in SOLVERS if solver not in (*OWN_CONSTANTS, *OWN_PAPERS)]
SEED, LARGEST = 1000, 1e6


@dataclass(frozen=True)
class Scaled:
    """An update with learning rate 1 whose changes are multiplied by a rate that is part of its state."""

    update: Annotated[Update, Choice(UPDATES), "The update, with learning rate 1."]

    def transformation(self, labels: Any, steps: int) -> optax.GradientTransformation:
        """The update, followed by the multiplication with the rate."""
        last = optax.GradientTransformation(lambda params: jnp.ones(()), _multiplied)
        return optax.chain(self.update.transformation(labels, steps), last)


UPDATES["scaled"] = Scaled


def _multiplied(updates: Any, rate: jax.Array, params: Any = None) -> tuple[Any, jax.Array]:
    return jax.tree.map(lambda change: rate * change, updates), rate


def scores(task: str, solver: str, steps: int | None, rates: Sequence[float]) -> list[float]:
    """neg_elbo after training with every rate; inf where it is not finite or larger than LARGEST in magnitude."""
    plan = Plan.make(task, solver, "paper", 0, steps, ["update.learning_rate=1"])
    settings, source, runs = plan.settings, plan.source(), len(rates)
    method = replace(settings.solver, update=Scaled(settings.solver.update))
    family_key, train_key, *_ = plan.keys(SEED)
    one = make_problem(settings.family, source, family_key, settings.problem)
    params, fixed = split(one)
    problem = eqx.combine(jax.tree.map(lambda leaf: jnp.stack([leaf] * runs), params), fixed)
    keys = jnp.stack([train_key] * runs)
    state = start(method, problem, keys)
    state = eqx.tree_at(lambda state: state.solver.optimiser[-1], state, jnp.asarray(rates))
    trained = train(method, problem, keys, resume=(state, empty_history()))

    @eqx.filter_jit
    def measured(params: Any, fixed: Any) -> jax.Array:
        return jax.lax.map(lambda one: plan.task.quick_neg_elbo(eqx.combine(one, fixed)), params)

    found = np.asarray(measured(trained.state.output, fixed), np.float64)
    return np.where(np.abs(found) < LARGEST, found, np.inf).tolist()


def main() -> None:
    """Print a table for every kind of task with the chosen rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=TASKS, help="one kind of task; all by default")
    parser.add_argument("--solvers", default=",".join(SEARCHED), help="names separated by commas")
    parser.add_argument("--steps", type=int, help="number of steps; the recipe's, and 300 for images, by default")
    parser.add_argument("--rates", default=",".join(f"{rate:g}" for rate in GRID), help="separated by commas")
    asked = parser.parse_args()
    for kind in [asked.kind] if asked.kind else TASKS:
        task, steps = TASKS[kind]
        rates = [float(rate) for rate in asked.rates.split(",")]
        print(f"\n| {kind} ({task}) | {' | '.join(f'{rate:g}' for rate in rates)} | best |", flush=True)
        print("|---" * (len(rates) + 2) + "|")
        for solver in asked.solvers.split(","):
            found = scores(task, solver, asked.steps or steps, rates)
            best = rates[int(np.argmin(found))]
            print(f"| {solver} | {' | '.join(f'{value:.4g}' for value in found)} | {best:g} |", flush=True)


if __name__ == "__main__":
    main()
