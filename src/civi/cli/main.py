"""The command line. Heavy modules are imported inside the commands that need them, to keep `--help` fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from civi import __version__
from civi.cli.completion import SolverName, bench_parts, solver_lists, task_names
from civi.cli.data import data_app
from civi.cli.errors import exit_code_of, folder_of, stoppable
from civi.cli.fit import fit
from civi.cli.report import report
from civi.errors import SettingError

WAIT = 50
TaskName = Annotated[str, typer.Argument(help="What to fit; `civi tasks` lists them.", autocompletion=task_names)]
app = typer.Typer(no_args_is_help=True)
app.add_typer(data_app, name="data")
app.command("fit")(fit)
app.command("report")(report)


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"civi {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Semi-implicit variational inference: CI-VI and related methods."""


@app.command()
def run(
    task: TaskName,
    solver: SolverName = "civi",
    recipe: Annotated[str, typer.Option(help="default, paper (appendix B) or fit (as civi.fit).")] = "default",
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Number of training steps; the recipe's by default.")] = None,
    out: Annotated[
        str | None, typer.Option(help="Folder for the results; runs/TASK-SOLVER-RECIPE-SEED by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run in the folder.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in the folder.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Your own CSV, Parquet or Arrow file or folder, for `regression`.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of the file to predict.")] = None,
    hold_out: Annotated[float, typer.Option(help="Fraction of the file's rows kept for testing.")] = 0.0,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--in-memory", help="Read rows from disk while training; default: above 500 MB."),
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; by default 1000, at least 10 seconds apart.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting, e.g. tracker.steps=20.")
    ] = None,
    help_settings: Annotated[
        bool, typer.Option("--help-settings", help="List all settings that --set accepts, and exit.")
    ] = False,
    write: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    distributed: Annotated[
        bool, typer.Option("--distributed", help="Use all devices of all processes (docs/distributed.md).")
    ] = False,
    coordinator: Annotated[str | None, typer.Option(help="HOST:PORT of process 0, if JAX does not detect it.")] = None,
    processes: Annotated[int | None, typer.Option(help="Number of processes.")] = None,
    process: Annotated[int | None, typer.Option(help="Index of this process, from 0.")] = None,
    inner_devices: Annotated[int, typer.Option(help="Number of devices that share the inner samples.")] = 1,
    whole_data: Annotated[bool, typer.Option("--whole-data", help="Replicate all data on every device.")] = False,
    wait: Annotated[int, typer.Option(help="Seconds to wait for the other processes to start.")] = WAIT,
) -> None:
    """Fit a task and write config.json, metrics.json, history.csv, draws.nc, posterior.civi, figures/, checkpoints/."""
    if help_settings:
        from civi.cli.settings import show_settings  # noqa: PLC0415 start-up time

        show_settings(task, solver, recipe, steps, set_ or [])
        return
    if force and resume:
        raise SettingError("--force starts a new run, --resume continues one: give only one")
    folder = folder_of(out, f"runs/{task}-{solver}-{recipe}-{seed}")
    with stoppable():
        from civi.experiment.tasks import find_task  # noqa: PLC0415 start-up time

        found = find_task(task, data=data, target=target, hold_out=hold_out, stream=stream)
        from civi.experiment.context import RunContext  # noqa: PLC0415 start-up time
        from civi.experiment.plan import Plan  # noqa: PLC0415 start-up time
        from civi.experiment.run import run as run_plan  # noqa: PLC0415 start-up time
        from civi.parallel.team import SINGLE_PROCESS, Address, join_team  # noqa: PLC0415 start-up time
        from civi.progress import console  # noqa: PLC0415 start-up time

        address = Address(coordinator, processes, process)
        if not distributed and (address != Address() or inner_devices != 1 or whole_data or wait != WAIT):
            names = "--coordinator, --processes, --process, --inner-devices, --whole-data and --wait"
            raise SettingError(f"{names} need --distributed: add it")
        plan = Plan.make(found, solver, recipe, seed, steps, set_ or [])
        single = nullcontext(SINGLE_PROCESS)
        with join_team(address, inner_devices, wait, whole_data=whole_data) if distributed else single as team:
            run_plan(plan, RunContext(folder, console(), force, resume, checkpoint_every, team, write))


@app.command()
def compare(
    task: TaskName,
    solvers: Annotated[
        str,
        typer.Option(
            help="Solver names separated by commas; `all` or, for the methods of the paper, `paper`.",
            autocompletion=solver_lists,
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(help="Number of seeds: 0, 1, ...")] = 3,
    recipe: Annotated[str, typer.Option(help="default, paper or fit.")] = "default",
    steps: Annotated[
        int | None, typer.Option(help="Number of training steps of every solver; the recipe's by default.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Folder for the results; runs/compare-TASK by default.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Your own CSV, Parquet or Arrow file or folder, for `regression`.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of the file to predict.")] = None,
    hold_out: Annotated[float, typer.Option(help="Fraction of the file's rows kept for testing.")] = 0.0,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--in-memory", help="Read rows from disk while training; default: above 500 MB."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing results in the folder.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the solvers that finished in the folder.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting of every solver.")
    ] = None,
    write: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
) -> None:
    """Fit a task with several solvers and seeds; write comparison.json, comparison.md and figures/."""
    if force and resume:
        raise SettingError("--force starts a new comparison, --resume continues one: give only one")
    folder = folder_of(out, f"runs/compare-{task}")
    with stoppable():
        from civi.experiment.tasks import find_task  # noqa: PLC0415 start-up time

        found = find_task(task, data=data, target=target, hold_out=hold_out, stream=stream)
        from civi.experiment.compare import compare as compare_plans  # noqa: PLC0415 start-up time
        from civi.experiment.compare import plans_that_serve  # noqa: PLC0415 start-up time
        from civi.experiment.plan import Plan  # noqa: PLC0415 start-up time
        from civi.experiment.recipes import GROUPS  # noqa: PLC0415 start-up time
        from civi.progress import console  # noqa: PLC0415 start-up time

        def plan_of(name: str) -> Plan:
            return Plan.make(found, name, recipe, 0, steps, set_ or [])

        screen = console()
        if solvers in GROUPS:
            plans = plans_that_serve(GROUPS[solvers], plan_of, screen)
        else:
            plans = [plan_of(name.strip()) for name in solvers.split(",") if name.strip()]
        compare_plans(plans, seeds, folder, screen, force=force, resume=resume, report=write)


@app.command()
def bench(
    part: Annotated[
        str, typer.Argument(help="What to time; all parts by default.", autocompletion=bench_parts)
    ] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer parts, rounds and methods; about two minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
) -> None:
    """Time the training steps of all methods and report ratios; needs no downloaded data."""
    from civi.bench.command import bench as run_bench  # noqa: PLC0415 start-up time
    from civi.progress import console  # noqa: PLC0415 start-up time

    with stoppable("finished parts are in the table above, nothing was written"):
        run_bench(part, console(), quick=quick, out=out)


@app.command()
def tasks() -> None:
    """List the tasks, one line each."""
    from civi.experiment.tasks import OWN_DATA, TASKS  # noqa: PLC0415 start-up time

    summaries = {name: entry.summary for name, entry in TASKS.items()} | OWN_DATA
    _list(summaries)


@app.command()
def solvers() -> None:
    """List the solvers, one line each."""
    from civi.inference.nuts import Nuts  # noqa: PLC0415 start-up time
    from civi.solver import SOLVERS  # noqa: PLC0415 start-up time

    summaries = {name: solver.__doc__ for name, solver in SOLVERS.items()} | {"nuts": Nuts.__doc__}
    _list(summaries)


def _list(summaries: Mapping[str, str | None]) -> None:
    """Print names and the first lines of their summaries in two columns."""
    width = max(map(len, summaries)) + 1
    for name, summary in summaries.items():
        typer.echo(f"{name:<{width}} {(summary or '').splitlines()[0]}")


def main() -> None:
    """Run the command line and exit; an error that the user can correct prints one line and exits with code 2."""
    sys.exit(exit_code_of(lambda: app(prog_name="civi", standalone_mode=False)))
