"""Recipes: run settings as named functions. They import civi; only the command line imports them."""

from __future__ import annotations

from collections.abc import Callable

from civi.errors import unknown
from civi.experiment.recipes.default import default
from civi.experiment.recipes.paper import paper
from civi.solver import SOLVERS, Settings

RECIPES: dict[str, Callable[[str, str], Settings]] = {"default": default, "paper": paper}


def settings_for(task: str, solver: str, recipe: str) -> Settings:
    """The recipe's settings for a solver on a task, or an error that says why there are none."""
    if solver not in SOLVERS:
        raise unknown("solver", solver, SOLVERS)
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    return RECIPES[recipe](task, solver)


__all__ = ["RECIPES", "settings_for"]
