"""What to run: names looked up, settings changed, everything checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

import civi
from civi.config import describe, override
from civi.errors import SettingError
from civi.recipes import settings_for
from civi.solver import Settings
from civi.tasks import Task, find_task


@dataclass(frozen=True)
class Plan:
    """The answer to all command-line options but the folder's."""

    task: Task
    solver: str
    recipe: str
    seed: int
    settings: Settings

    @classmethod
    def make(
        cls, task: str, solver: str, recipe: str, seed: int, steps: int | None, assignments: Sequence[str]
    ) -> Plan:
        """Look up names, apply the overrides, refuse what cannot be run."""
        found, settings = find_task(task), settings_for(task, solver, recipe)
        if seed < 0:
            raise SettingError(f"seed must not be negative, not {seed}")
        of_family = [a for a in assignments if a.replace("=", ".").split(".")[0] == "family"]
        of_solver = [a for a in assignments if a not in of_family]
        of_solver += [] if steps is None or not hasattr(settings.solver, "steps") else [f"steps={steps}"]
        with_family = override(settings, of_family)
        chosen = replace(with_family, solver=override(settings.solver, of_solver))
        return cls(found, solver, recipe, seed, chosen)

    def keys(self, seed: int) -> jax.Array:
        """The four random keys of a run: family, training, measuring, draws."""
        return jax.random.split(jax.random.key(seed), 4)

    def described(self) -> dict[str, Any]:
        """The content of config.json; `settings` has the names that --set takes."""
        settings = {**describe(self.settings.solver), "family": describe(self.settings.family)}
        names = {"task": self.task.name, "solver": self.solver, "recipe": self.recipe, "seed": self.seed}
        return {"civi": civi.__version__, **names, "settings": settings}
