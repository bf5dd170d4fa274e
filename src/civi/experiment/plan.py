"""What to run: names looked up, settings changed, everything checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

import civi
from civi.errors import SettingError, require
from civi.experiment.config import describe, override
from civi.experiment.recipes import settings_for
from civi.experiment.tasks import Task, find_task
from civi.inference.pilot import NoPilot
from civi.problem.autoencoder import Autoencoder
from civi.problem.target import BatchedTarget, Target, check_batch
from civi.solver import Settings


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
        cls, task: str | Task, solver: str, recipe: str, seed: int, steps: int | None, assignments: Sequence[str]
    ) -> Plan:
        """Look up names, apply the overrides, refuse what cannot be run."""
        found = find_task(task) if isinstance(task, str) else task
        settings = settings_for(found.name, solver, recipe)
        if seed < 0:
            raise SettingError(f"seed must not be negative, not {seed}")
        of_rest = [a for a in assignments if a.replace("=", ".").split(".")[0] in ("family", "pilot")]
        of_solver = [a for a in assignments if a not in of_rest]
        of_solver += [] if steps is None or not hasattr(settings.solver, "steps") else [f"steps={steps}"]
        with_rest = override(settings, of_rest)
        chosen = replace(with_rest, solver=override(settings.solver, of_solver))
        return cls(found, solver, recipe, seed, chosen)

    def make_target(self) -> Target | BatchedTarget:
        """The task's target, refused where the settings do not fit it."""
        target = self.task.make()
        if hasattr(self.settings.solver, "samples"):
            check_batch(target, self.settings.solver.samples.batch)
        if isinstance(target, Autoencoder):
            self._check_pairs()
        return target

    def _check_pairs(self) -> None:
        """An autoencoder has a z for every datum of a batch, and no single posterior to look at before."""
        solver = self.settings.solver
        chunk = solver.pool.chunk if hasattr(solver, "pool") else 0
        outer, batch = chunk or solver.samples.outer, solver.samples.batch
        numbers = f"samples.outer ({outer}) must be samples.batch ({batch}) or a multiple of it"
        require(batch > 0 and outer % batch == 0, f"an autoencoder has outer samples for every datum: {numbers}")
        one_each = outer == batch or not hasattr(solver, "sketch") or solver.sketch.form == "none"
        require(one_each, f"a sketch picks data: samples.outer ({outer}) must then be samples.batch ({batch})")
        one = isinstance(self.settings.pilot, NoPilot)
        require(one, "a pilot looks at one posterior, and an autoencoder has one for every datum: set pilot=none")

    def keys(self, seed: int) -> jax.Array:
        """The four random keys of a run: family, training, measuring, draws."""
        return jax.random.split(jax.random.key(seed), 4)

    def described(self) -> dict[str, Any]:
        """The content of config.json; `settings` has the names that --set takes."""
        every = describe(self.settings)
        settings = {**every.pop("solver"), **every}
        names = {"task": self.task.name, "solver": self.solver, "recipe": self.recipe, "seed": self.seed}
        return {"civi": civi.__version__, **names, **self.task.options, "settings": settings}
