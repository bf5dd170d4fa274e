"""Compare several solvers on one task. All are evaluated by the same estimator, never by their own loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from civi import interrupts
from civi.errors import CheckpointError, SettingError, require
from civi.experiment import run_folder
from civi.experiment.lock import locked
from civi.experiment.plan import Plan
from civi.experiment.report.comparison import draw_curves, live_table, markdown
from civi.experiment.report.comparison_report import write_comparison_report
from civi.experiment.runners import runner_of
from civi.experiment.solver_file import read_result, write_result
from civi.experiment.solver_result import SolverResult, ranked
from civi.experiment.tasks.base import Task
from civi.files import make_folder, write_json, write_text
from civi.inference.programs import drop_programs

MOST_SEEDS = 10_000


def plans_that_serve(names: Sequence[str], plan_of: Callable[[str], Plan], console: Console) -> list[Plan]:
    """The plans of those solvers that can serve the task; each of the others is named in one line with the reason.

    Args:
        names: names of solvers.
        plan_of: makes the plan of a solver.
        console: where the solvers that are left out are named.
    """
    plans: list[Plan] = []
    refused: dict[str, SettingError] = {}
    for name in names:
        try:
            plan = plan_of(name)
            plan.source()
            plans.append(plan)
        except SettingError as error:
            refused[name] = error
    if not plans:
        raise next(iter(refused.values()))
    for name, reason in refused.items():
        console.print(f"{name} is left out: {reason}", soft_wrap=True)
    return plans


def compare(
    plans: Sequence[Plan],
    seeds: int,
    folder: Path,
    console: Console,
    *,
    force: bool,
    resume: bool = False,
    report: bool = False,
) -> list[SolverResult]:
    """Run every plan with seeds 0, 1, ..., showing the table live; comparison.json is updated after every solver.

    Args:
        plans: one per solver, all of the same task.
        seeds: number of seeds.
        folder: where the table, the figures and comparison.json are written.
        console: where the table is shown.
        force: whether to replace existing results in the folder.
        resume: whether to keep the solvers that have finished in the folder, and to run the others.
        report: whether to write a report at the end.

    Returns:
        The result of every solver, best first.
    """
    require(1 <= seeds <= MOST_SEEDS, f"--seeds must be from 1 to {MOST_SEEDS}, not {seeds}")
    require(len(plans) > 0, "--solvers names no solver: give names separated by commas, or all")
    names = [plan.solver for plan in plans]
    twice = [name for name in names if names.count(name) > 1]
    require(not twice, f"--solvers names {twice[0] if twice else ''} more than once: name each solver once")
    for plan in plans:
        plan.source()
    if resume and not (folder / "comparison.json").exists():
        raise CheckpointError(f"there is no comparison in {folder} to resume: run without --resume")
    with locked(folder):
        if not resume:
            run_folder.prepare(folder, force=force)
        _write_table(folder, plans[0].task, seeds, [])
        interrupts.advise(f"to keep the solvers that have finished, repeat the command with --resume (folder {folder})")
        done = _run_all(plans, seeds, folder, console)
        best_first = ranked(done, plans[0].task.primary_metric)
        _draw(plans[0].task, best_first, done, folder, console)
        page = write_comparison_report(folder) if report else None
    where = f", the report is {page}" if page else ""
    console.print(f"table, figures and comparison.json are in {folder}{where}", soft_wrap=True)
    return best_first


def _run_all(plans: Sequence[Plan], seeds: int, folder: Path, console: Console) -> list[SolverResult]:
    """Run the solvers, except those with a result in the folder, in the order of the plans."""
    task, names, done = plans[0].task, [plan.solver for plan in plans], list[SolverResult]()
    with Live(live_table(done, names, "starting", task), console=console, auto_refresh=False) as live:
        for i, plan in enumerate(plans):
            waiting = names[i:]

            def progress(phase: str, waiting: Sequence[str] = waiting) -> None:
                live.update(live_table(done, waiting, phase, task), refresh=True)

            options = plan.described() | {"seeds": seeds}
            file = folder / "solvers" / f"{plan.solver}.npz"
            result = read_result(file, options)
            if result is None:
                drop_programs()
                result = runner_of(plan).run_seeds(plan, range(seeds), progress)
                write_result(file, result, options)
            done.append(result)
            _write_table(folder, task, seeds, done)
            live.update(live_table(done, names[i + 1 :], "starting", task), refresh=True)
    return done


def _write_table(folder: Path, task: Task, seeds: int, done: Sequence[SolverResult]) -> None:
    """Write comparison.json with the results so far, best first."""
    make_folder(folder / "solvers")
    best_first = ranked(done, task.primary_metric)
    content: dict[str, Any] = {"task": task.name, "rank_by": task.primary_metric, "seeds": list(range(seeds))}
    content["secondary"] = task.secondary_metric
    write_json(folder / "comparison.json", content | {"solvers": [result.as_json() for result in best_first]})


def _draw(task: Task, best_first: list[SolverResult], done: list[SolverResult], folder: Path, console: Console) -> None:
    """Write the table in Markdown and the figures."""
    write_text(folder / "comparison.md", markdown(best_first, task))
    figures = make_folder(folder / "figures")
    draw_curves(best_first, task, figures / "curves.png")
    with console.status("drawing figures"):
        task.draw_comparison({result.solver: result.draws for result in done}, figures)
