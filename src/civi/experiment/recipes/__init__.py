"""Recipes by name, each of which gives the settings of a solver on a task; and groups of solvers by name."""

from __future__ import annotations

from collections.abc import Callable

from civi.errors import unknown
from civi.experiment.recipes.default import default
from civi.experiment.recipes.fit import fit
from civi.experiment.recipes.paper import paper
from civi.inference.nuts import Nuts
from civi.inference.settings import Settings
from civi.solver import SOLVERS

NUTS = "nuts"
METHODS = (*SOLVERS, NUTS)
GROUPS: dict[str, tuple[str, ...]] = {
    "all": METHODS,
    "paper": (
        *("civi-paper", "cadam", "asc-pg", "scgd", "nmc-adam", "nmc-rmsprop", "nmc-sgd"),
        *("sivi", "uivi", "mfvb", NUTS),
    ),
}
RECIPES: dict[str, Callable[[str, str], Settings | Nuts]] = {"default": default, "paper": paper, "fit": fit}


def settings_for(task: str, solver: str, recipe: str) -> Settings | Nuts:
    """The settings of a solver on a task.

    Args:
        task: name of the task.
        solver: name of the solver, or nuts.
        recipe: name of the recipe. It is an error if the recipe has no settings for this solver and task.
    """
    known = (*SOLVERS, NUTS)
    if solver not in known:
        raise unknown("solver", solver, known)
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    return RECIPES[recipe](task, solver)


__all__ = ["GROUPS", "METHODS", "NUTS", "RECIPES", "settings_for"]
