"""One cell of the table of the field: a solver on a task, over several seeds."""

from __future__ import annotations

import math
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
    """The result of a cell as JSON values, without curves; `refused` is the reason if the solver cannot serve the task.

    Args:
        cell: the cell.
        seconds: seconds of training per seed, for the kind `equal`.
        seeds: number of seeds.
    """
    limited = cell.kind == "equal" and cell.solver != NUTS
    try:
        return {**cell._asdict(), **run_plan(planned(cell), seconds if limited else None, seeds)}
    except CiviError as error:
        return {**cell._asdict(), "refused": str(error)}


def run_plan(plan: Plan, seconds: float | None, seeds: int) -> dict[str, Any]:
    """Steps, CPU seconds per seed, and for each seed the measures and the step at which it diverged.

    Args:
        plan: what to run.
        seconds: CPU seconds of training per seed; None takes the plan's number of steps.
        seeds: number of seeds.
    """
    plan.source()
    if seconds is not None:
        plan = replace(plan, settings=plan.settings.changed(steps_in(plan, seconds), ()))
    trained = CpuTimer("step ", "measuring")
    result = runner_of(plan).run_seeds(plan, range(seeds), trained)
    spent = round(trained.seconds / seeds, 3)
    measures = [_rounded(row) for row in result.measures]
    return {"steps": result.steps, "diverged": result.diverged, "cpu_seconds": spent, "measures": measures}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """The numbers with six significant digits, and None in place of those that are not finite."""
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {name: float(f"{value:.6g}") if math.isfinite(value) else None for name, value in numbers.items()}


class CpuTimer:
    """A progress callback that measures the CPU time from the first phase of one name to the first of another."""

    def __init__(self, first: str, last: str) -> None:
        self.first, self.last = first, last
        self.begun: float | None = None
        self.ended: float | None = None

    def __call__(self, phase: str) -> None:
        if self.begun is None and phase.startswith(self.first):
            self.begun = time.process_time()
        if self.ended is None and phase.startswith(self.last):
            self.ended = time.process_time()

    @property
    def seconds(self) -> float:
        """The CPU seconds; 0 if a phase was not reached."""
        return 0.0 if self.begun is None or self.ended is None else self.ended - self.begun


def steps_in(plan: Plan, seconds: float) -> int:
    """How many steps fit into this CPU time: measured on a short run, without compilation and the first steps.

    CPU time, unlike wall time, does not depend on other jobs of the machine.

    Args:
        plan: what to run.
        seconds: CPU seconds of training.
    """
    settings = plan.settings
    family_key, train_key, *_ = plan.keys(0)
    problem = make_problem(settings.family, settings.pilot.look(plan.source()), family_key, settings.problem)

    times: list[tuple[int, float]] = []

    def long_enough(state: RunState, history: dict[str, Any]) -> bool:
        if int(state.done) >= WARM_UP:
            times.append((int(state.done), time.process_time()))
        return len(times) > 1 and times[-1][1] - times[0][1] > PROBE_SECONDS

    train(settings.solver, problem, train_key, watch=long_enough, block=WARM_UP)
    (first, begun), (last, ended) = times[0], times[-1]
    return min(MOST, max(FEWEST, int(seconds * (last - first) / (ended - begun))))
