"""One run from a task's name to a folder of results."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

import civi
from civi.checkpoint import Checkpoints, History
from civi.config import describe, differences, override
from civi.diagnose import neg_elbo_bounds
from civi.errors import CheckpointError, SettingError
from civi.recipes import settings_for
from civi.report import files
from civi.report.history_figure import draw_history
from civi.report.progress import TrainingBar, flat, result_table
from civi.solver import Model, RunState, Trained, train
from civi.solver.base import Settings
from civi.solver.loop import empty_history, start
from civi.tasks import Task, find_task

DRAWS = 4000


@dataclass(frozen=True)
class Plan:
    """What to run: the answer to all command-line options but the folder's."""

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
        of_family = [a.removeprefix("family.") for a in assignments if a.startswith("family.")]
        of_solver = [a for a in assignments if not a.startswith("family.")]
        of_solver += [] if steps is None else [f"steps={steps}"]
        family, chosen = override(settings.family, of_family), override(settings.solver, of_solver)
        return cls(found, solver, recipe, seed, replace(settings, family=family, solver=chosen))

    def described(self) -> dict[str, Any]:
        """The content of config.json; `settings` has the names that --set takes."""
        settings = {**describe(self.settings.solver), "family": describe(self.settings.family)}
        names = {"task": self.task.name, "solver": self.solver, "recipe": self.recipe, "seed": self.seed}
        return {"civi": civi.__version__, **names, "settings": settings}


def run(
    plan: Plan, folder: Path, console: Console, *, force: bool, resume: bool, checkpoint_every: int
) -> dict[str, Any]:
    """Train, measure, and write every file of the run; returns the metrics."""
    if checkpoint_every < 1:
        raise SettingError(f"--checkpoint-every must be at least 1, not {checkpoint_every}")
    family_key, train_key, measure_key, draw_key = jax.random.split(jax.random.key(plan.seed), 4)
    target = plan.task.make()
    if resume:
        _check_same_run(plan, folder)
    else:
        files.prepare(folder, force=force)
        files.write_json(folder / "config.json", plan.described())
    checkpoints = Checkpoints(folder / "checkpoints", every=checkpoint_every)

    begun = time.perf_counter()
    model = Model(plan.settings.family.init(target.dim, family_key), target)
    trained = _train(plan, model, train_key, checkpoints, console, resume=resume)
    seconds = time.perf_counter() - begun
    files.write_history(folder / "history.csv", trained.history)

    with console.status("measuring and drawing"):
        metrics = _measure(plan, trained, seconds, measure_key)
        files.write_json(folder / "metrics.json", metrics)
        draws = np.asarray(trained.model.family.sample(draw_key, DRAWS))
        names = {"task": plan.task.name, "solver": plan.solver, "seed": plan.seed}
        files.write_draws(folder / "draws.nc", draws, names)
        (folder / "figures").mkdir(exist_ok=True)
        draw_history(trained.history, folder / "figures" / "history.png")
        plan.task.draw(trained.model, draws, folder / "figures")

    console.print(result_table(metrics, flat(plan.described()["settings"])))
    console.print(f"{trained.message}; files are in {folder}, figures in {folder / 'figures'}", soft_wrap=True)
    return metrics


def _train(
    plan: Plan, model: Model, key: jax.Array, checkpoints: Checkpoints, console: Console, *, resume: bool
) -> Trained:
    """Train with a progress bar and checkpoints; an interrupted run leaves a checkpoint of its last block."""
    solver = plan.settings.solver
    with TrainingBar(console, plan.task.name, solver.steps) as bar:
        state, history = start(solver, model, key), empty_history()
        if resume:
            state, history, damaged = checkpoints.restore(state)
            for line in damaged:
                console.print(f"civi: warning: {line}", style="yellow", soft_wrap=True)
        latest = [(state, history)]

        def watch(state: RunState, history: History) -> None:
            latest[0] = (state, history)
            if int(state.done) % checkpoints.every == 0:
                checkpoints.save(state, history)
            bar.update(int(state.done), float(history["neg_elbo"][-20:].mean()))

        try:
            trained = train(solver, model, key, resume=(state, history), watch=watch, pause_every=checkpoints.every)
        finally:
            checkpoints.save(*latest[0])
    return trained


def _measure(plan: Plan, trained: Trained, seconds: float, key: jax.Array) -> dict[str, Any]:
    """metrics.json: names are a contract. neg_elbo is the upper bound with the own term."""
    bounds = neg_elbo_bounds(trained.model.family, trained.model.target, key)
    steps = len(trained.history["step"])
    return {
        "task": plan.task.name,
        "solver": plan.solver,
        "recipe": plan.recipe,
        "seed": plan.seed,
        "status": trained.status,
        "message": trained.message,
        "steps": steps,
        "skipped_steps": trained.skipped,
        "seconds": seconds,
        "compile_seconds": trained.compile_seconds,
        "seconds_per_step": trained.seconds / max(steps, 1),
        "neg_elbo": bounds.upper,
        "neg_elbo_se": bounds.upper_se,
        **plan.task.measure(bounds),
    }


def _check_same_run(plan: Plan, folder: Path) -> None:
    """A run may only be resumed with the settings it was started with."""
    try:
        saved = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise CheckpointError(f"there is no run in {folder} to resume: run without --resume") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / 'config.json'} cannot be read: {error}") from error
    changed = differences(saved, json.loads(json.dumps(plan.described())))
    if changed:
        raise CheckpointError(
            f"{folder} was started with other settings ({'; '.join(changed)}): resume with the same ones"
        )
