"""A fully resolved run: names are looked up, settings are applied and checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

import civi
from civi.errors import require
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import find_task
from civi.experiment.tasks.base import Task
from civi.inference.settings import Settings

RUN_FORMAT = 2
LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Plan:
    """What to run. `RunContext` says where and how.

    Attributes:
        task: the task to fit.
        solver: name of the solver, or nuts.
        recipe: name of the recipe that the settings come from.
        seed: seed of all random numbers.
        settings: a `Settings`, or a `Nuts` for NUTS; `civi.experiment.runners` chooses the runner by its type.
    """

    task: Task
    solver: str
    recipe: str
    seed: int
    settings: Any

    @classmethod
    def make(
        cls, task: str | Task, solver: str, recipe: str, seed: int, steps: int | None, assignments: Sequence[str]
    ) -> Plan:
        """Look up the names, apply the overrides and check the settings.

        Args:
            task: the task, or its name.
            solver: name of the solver, or nuts.
            recipe: name of the recipe that the settings come from.
            seed: seed of all random numbers.
            steps: number of training steps; None: the recipe's.
            assignments: overrides of settings as name=value.
        """
        found = find_task(task) if isinstance(task, str) else task
        require(0 <= seed <= LARGEST_SEED, f"seed must be from 0 to {LARGEST_SEED}, not {seed}")
        settings = settings_for(found.name, solver, recipe)
        needed = found.settings if isinstance(settings, Settings) else ()
        return cls(found, solver, recipe, seed, settings.changed(steps, [*needed, *assignments]))

    def source(self) -> Any:
        """The task's target or data; an error if the settings do not fit it."""
        source = self.task.source()
        self.settings.check(source)
        return source

    def keys(self, seed: int) -> jax.Array:
        """The four random keys of a run: for the initial family, training, measures and draws."""
        return jax.random.split(jax.random.key(seed), 4)

    def names(self) -> dict[str, Any]:
        """Task, solver, recipe and seed, as in metrics.json."""
        return {"task": self.task.name, "solver": self.solver, "recipe": self.recipe, "seed": self.seed}

    def described(self) -> dict[str, Any]:
        """The content of config.json; the names in `settings` are those that --set accepts."""
        settings = self.settings.described()
        return {
            "civi": civi.__version__,
            "format": RUN_FORMAT,
            **self.names(),
            **self.task.options,
            "settings": settings,
        }
