"""Compare several solvers on one task. All are evaluated by the same estimator, never by their own loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live

from civi.errors import SettingError, require
from civi.experiment import run_folder
from civi.experiment.plan import Plan
from civi.experiment.recipes import METHODS
from civi.experiment.report.comparison import draw_curves, live_table, markdown
from civi.experiment.runners import runner_of
from civi.experiment.solver_result import SolverResult, ranked
from civi.files import write_json, write_text


def plans_of_all(plan_of: Callable[[str], Plan], console: Console) -> list[Plan]:
    """The plans of all solvers that can serve the task; each of the others is named in one line with the reason.

    Args:
        plan_of: makes the plan of a solver.
        console: where the solvers that are left out are named.
    """
    plans: list[Plan] = []
    refused: dict[str, SettingError] = {}
    for name in METHODS:
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


def compare(plans: Sequence[Plan], seeds: int, folder: Path, console: Console, *, force: bool) -> list[SolverResult]:
    """Run every plan with seeds 0, 1, ..., showing the table live; comparison.json is updated after every solver.

    Args:
        plans: one per solver, all of the same task.
        seeds: number of seeds.
        folder: where the table, the figures and comparison.json are written.
        console: where the table is shown.
        force: whether to replace existing results in the folder.

    Returns:
        The result of every solver, best first.
    """
    require(seeds >= 1, f"--seeds must be at least 1, not {seeds}")
    require(len(plans) > 0, "--solvers names no solver: give names separated by commas, or all")
    task, numbers = plans[0].task, range(seeds)
    for plan in plans:
        plan.source()
    run_folder.prepare(folder, force=force)
    (folder / "figures").mkdir(exist_ok=True)
    done: list[SolverResult] = []
    names = [plan.solver for plan in plans]
    with Live(live_table(done, names, "compiling", task), console=console, auto_refresh=False) as live:
        for i, plan in enumerate(plans):
            waiting = names[i:]

            def progress(step: int, waiting: Sequence[str] = waiting) -> None:
                live.update(live_table(done, waiting, f"step {step}", task), refresh=True)

            done.append(runner_of(plan).run_seeds(plan, numbers, progress))
            best_first = ranked(done, task.primary_metric)
            content = {"task": task.name, "rank_by": task.primary_metric, "seeds": list(numbers)}
            solvers = [result.as_json() for result in best_first]
            write_json(folder / "comparison.json", content | {"solvers": solvers})
            live.update(live_table(done, names[i + 1 :], "compiling", task), refresh=True)
    write_text(folder / "comparison.md", markdown(best_first, task))
    draw_curves(best_first, task, folder / "figures" / "curves.png")
    with console.status("drawing figures"):
        task.draw_comparison({result.solver: result.draws for result in done}, folder / "figures")
    console.print(f"table, figures and comparison.json are in {folder}", soft_wrap=True)
    return best_first
