"""One cell of the table of the field: a solver on a task, over several seeds."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

from civi.errors import CiviError
from civi.experiment.plan import Plan
from civi.experiment.recipes import NUTS
from civi.experiment.runners import runner_of
from civi.experiment.tasks import TASKS
from civi.problem import make_problem
from civi.solver import RunState, train

KINDS = ("equal", "paper")
WARM_UP, PROBE_SECONDS, FEWEST, MOST = 10, 2.0, 50, 1_000_000
POSTERIORS = tuple(name for name, entry in TASKS.items() if entry.module not in ("images", "sentences"))


class Cell(NamedTuple):
    """A solver on a task.

    Attributes:
        task: name of the task.
        solver: name of the solver.
        kind: equal (the default recipe's family, for a given number of seconds) or paper (the published settings).
    """

    task: str
    solver: str
    kind: str

    @property
    def file(self) -> str:
        """Name of the file with the result."""
        return f"{self.task}--{self.solver}--{self.kind}.json"


def cells(tasks: list[str], solvers: list[str], kinds: list[str]) -> list[Cell]:
    """All cells, task by task; NUTS has no settings in papers and no given number of seconds."""
    every = [Cell(task, solver, kind) for task in tasks for solver in solvers for kind in kinds]
    return [cell for cell in every if cell.solver != NUTS or cell.kind == "equal"]


def planned(cell: Cell) -> Plan:
    """What a cell runs; a SettingError if its recipe has no settings for the solver and the task."""
    return Plan.make(cell.task, cell.solver, "paper" if cell.kind == "paper" else "default", 0, None, ())


def has_settings(cell: Cell) -> bool:
    """Whether there is something to run."""
    try:
        return bool(planned(cell))
    except CiviError:
        return False


def measured(cell: Cell, seconds: float, seeds: int) -> dict[str, Any]:
    """The result of a cell as JSON values; `refused` is the reason if the solver cannot serve the task.

    Args:
        cell: the cell.
        seconds: seconds of training per seed, for the kind `equal`.
        seeds: number of seeds.
    """
    begun = time.perf_counter()
    try:
        plan = planned(cell)
        plan.source()
        if cell.kind == "equal" and cell.solver != NUTS:
            plan = replace(plan, settings=plan.settings.changed(steps_in(plan, seconds), ()))
        result = runner_of(plan).run_seeds(plan, range(seeds), lambda step: None)
    except CiviError as error:
        return {**cell._asdict(), "refused": str(error)}
    return {**cell._asdict(), **result.as_json(), "wall_seconds": time.perf_counter() - begun}


def steps_in(plan: Plan, seconds: float) -> int:
    """How many steps fit into this time: measured on a short run, without compilation and the first steps.

    Args:
        plan: what to run.
        seconds: seconds of training.
    """
    settings = plan.settings
    family_key, train_key, *_ = plan.keys(0)
    problem = make_problem(settings.family, settings.pilot.look(plan.source()), family_key, settings.problem)

    def long_enough(state: RunState, history: dict[str, Any]) -> bool:
        return int(state.done) > WARM_UP and history["seconds"][-1] > PROBE_SECONDS

    found = train(settings.solver, problem, train_key, watch=long_enough, block=WARM_UP).history
    taken, steps = found["seconds"][-1] - found["seconds"][WARM_UP - 1], len(found["step"]) - WARM_UP
    return min(MOST, max(FEWEST, int(seconds * steps / taken)))
