"""The paper's comparison on autoencoders: learning curves of every method of the paper, with the paper's settings.

    python benchmarks/paper_curves.py [--tasks A,B] [--solvers A,B] [--seeds 1] [--steps N] [--draw]

C-ADAM is not listed: with the paper's constants and no sketch it is civi-paper on autoencoders, to the last setting.
Trains the recipe `paper` of every solver for its 18,000 steps (text: TEXT_STEPS of its 40,000) and evaluates it as
`civi compare` does. The result of a seed is added to paper_results.jsonl (or --results) when it has finished, and is
not computed again: repeat the command to continue, or name the solvers of a part. Prints a table of seed 0 for every
task and a line for every solver with more seeds, and draws neg_elbo of test data against epochs and CPU seconds, with
seed 0, to paper-TASK.png in docs/figures (or --figures). With --draw, nothing is trained. Run it on one core, for
example with `taskset -c 0`, so that CPU seconds are those of one core.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from civi.experiment.plan import Plan
from civi.experiment.recipes import GROUPS, NUTS
from civi.experiment.report.comparison import draw_curves, markdown
from civi.experiment.runners import runner_of
from civi.experiment.solver_result import Curve, SolverResult, ranked
from civi.experiment.tasks import find_task
from civi.files import make_folder
from civi.inference.programs import drop_programs
from field_measure import CpuTimer
from results_file import add_result, read_results
from seeds import cell

RESULTS = Path(__file__).with_name("paper_results.jsonl")
TASKS, TEXT_STEPS = ("mnist", "fashion-mnist", "ptb"), 2000
SOLVERS = tuple(name for name in GROUPS["paper"] if name not in ("cadam", NUTS))
KEY = ("task", "solver", "seed")


def measured(task: str, solver: str, seed: int, steps: int | None) -> dict[str, Any]:
    """The result of a solver as JSON values; the seconds of its curve are CPU seconds.

    All steps of a solver take the same CPU time. Wall seconds would depend on other jobs.
    """
    plan = Plan.make(task, solver, "paper", 0, TEXT_STEPS if task == "ptb" and steps is None else steps, ())
    timer = CpuTimer("step ", "measuring")
    result = runner_of(plan).run_seeds(plan, [seed], timer)
    seconds = [timer.seconds * at / steps_done(result) for at in result.curve.step]
    entry = replace(result, curve=replace(result.curve, seconds=seconds), seconds=timer.seconds).as_json()
    return {"task": task, "seed": seed, **{name: value for name, value in entry.items() if name != "settings"}}


def steps_done(result: SolverResult) -> int:
    """The number of steps until the last seed ended."""
    return max(result.steps if step is None else step for step in result.diverged)


def restored(entry: dict[str, Any]) -> SolverResult:
    """A result as it was before `measured` turned it into JSON, without draws and settings."""
    fields = {name: value for name, value in entry.items() if name not in ("task", "seed", "curve")}
    return SolverResult(**fields, curve=Curve(**entry["curve"]), settings={}, draws=np.zeros((0, 1)))


def show(task: str, results: list[SolverResult], figures: Path, console: Console) -> None:
    """Print the table of a task and draw its curves."""
    found = find_task(task)
    best_first = ranked(results, found.primary_metric)
    console.print(markdown(best_first, found), soft_wrap=True, highlight=False)
    draw_curves(best_first, found, make_folder(figures) / f"paper-{task}.png")


def over_seeds(results: list[SolverResult], measures: tuple[str, str]) -> str:
    """Mean and standard deviation of two measures over the seeds of a solver that finished."""
    rows = [one.measures[0] for one in results if one.diverged == [None]]
    parts = [f"{name} {cell([row[name] for row in rows])}" for name in measures]
    return f"{results[0].solver}, {len(rows)} of {len(results)} seeds finished: {', '.join(parts)}"


def main() -> None:
    """Train what is missing, then print the tables and draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=_names, default=list(TASKS), metavar="A,B", help=", ".join(TASKS))
    parser.add_argument("--solvers", type=_names, default=list(SOLVERS), metavar="A,B", help=", ".join(SOLVERS))
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds: 0, 1, ...")
    parser.add_argument("--steps", type=int, help="number of steps; the paper's by default")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results, one line per solver")
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"), help="folder of the figures")
    parser.add_argument("--draw", action="store_true", help="train nothing; draw the results so far")
    asked, console = parser.parse_args(), Console()
    for task in asked.tasks:
        wanted = [(task, solver, seed) for solver in asked.solvers for seed in range(asked.seeds)]
        for key in [] if asked.draw else wanted:
            if key not in read_results(asked.results, KEY):
                console.print(f"{task}: {key[1]}, seed {key[2]}")
                drop_programs()
                add_result(asked.results, measured(*key, asked.steps))
        done = {key: restored(entry) for key, entry in read_results(asked.results, KEY).items() if key[0] == task}
        if first := [result for (*_, seed), result in done.items() if seed == 0]:
            show(task, first, asked.figures, console)
        for solver in asked.solvers:
            every = [result for (_, name, _), result in done.items() if name == solver]
            if len(every) > 1:
                console.print(over_seeds(every, ("test_neg_log_lik", "neg_elbo")), soft_wrap=True, highlight=False)


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
