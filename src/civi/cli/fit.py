"""`civi fit`: fit a NumPyro model from the user's own Python file to data."""

from __future__ import annotations

import importlib.util
import math
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from civi import interrupts
from civi.cli.completion import SolverName
from civi.cli.errors import folder_of, stoppable
from civi.errors import DataError, OutputError, SettingError, require, unknown
from civi.files import write_json

if TYPE_CHECKING:
    from rich.table import Table

    from civi.inference.posterior import SemiImplicitPosterior

ROWS = 40
MOST_DRAWS = 10_000_000


def fit(
    model: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:NAME", help="A NumPyro model in a Python file. The file is executed: use one you trust."
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(help="JSON or CSV file; its members or columns are the model's arguments.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Folder for the results; runs/fit-NAME-SEED by default.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers, unless there is a time limit.")] = 0,
    seconds: Annotated[float | None, typer.Option(help="Time limit of the fit, in seconds; none by default.")] = None,
    steps: Annotated[int | None, typer.Option(help="Maximum number of training steps.")] = None,
    solver: SolverName = "civi",
    reparam: Annotated[bool, typer.Option(help="Whether hierarchical sites may be made non-centred.")] = True,
    draws: Annotated[int, typer.Option(help="Number of posterior draws to write.")] = 4000,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run in the folder.")] = False,
    write: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    program_cache: Annotated[
        bool,
        typer.Option("--program-cache/--no-program-cache", help="Keep compiled programs for later fits, on disk."),
    ] = True,
) -> None:
    """Fit your own NumPyro model; write config.json, metrics.json, draws.nc and posterior.civi."""
    check_options(seed, draws, seconds, solver)
    file, name = _split(model)
    folder = folder_of(out, f"runs/fit-{name}-{seed}")
    with stoppable():
        from civi.experiment.data.arguments import bind_arguments, read_arguments  # noqa: PLC0415 start-up time

        arguments = read_arguments(data) if data else {}
        function = load_model(file, name)
        args, kwargs = bind_arguments(function, name, data, arguments)
        import jax  # noqa: PLC0415 start-up time

        from civi.experiment import run_folder  # noqa: PLC0415 start-up time
        from civi.experiment.lock import locked  # noqa: PLC0415 start-up time
        from civi.inference.fit import fit as fit_model  # noqa: PLC0415 start-up time

        options: dict[str, Any] = {"seconds": seconds, "steps": steps, "solver": solver, "reparam": reparam}
        settings = {"model": model, "data": str(data) if data else None, "seed": seed, **options, "draws": draws}
        if program_cache:
            _keep_programs()
        keys = jax.random.split(jax.random.key(seed), 4)
        with locked(folder):
            if not force:
                run_folder.prepare(folder, force=False, resumable=False)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the fit has not converged")  # the table of checks says it
                posterior = fit_model(function, *args, key=keys[0], **options, **kwargs)
            run_folder.prepare(folder, force=force, resumable=False)
            interrupts.advise(f"the fit in {folder} is not complete: start again with --force")
            write_json(folder / "config.json", settings)
            _finish(posterior, folder, keys[1:], settings, write)


def check_options(seed: int, draws: int, seconds: float | None, solver: str) -> None:
    """Refuse numbers out of range and a solver that does not fit, before anything slow is imported."""
    require(0 <= seed < 2**31, f"seed must be from 0 to {2**31 - 1}, not {seed}")
    require(10 <= draws <= MOST_DRAWS, f"draws must be from 10 to {MOST_DRAWS}, not {draws}")
    fine = seconds is None or 0 < seconds < math.inf
    require(fine, f"seconds must be positive and finite, not {seconds}")
    require(solver != "nuts", "civi fit trains a family, but nuts draws Markov chains: use NumPyro's NUTS directly")


def _keep_programs() -> None:
    """Keep compiled programs in the user's cache folder; without it, the fit goes on and compiles them."""
    from civi.inference.program_files import keep_programs  # noqa: PLC0415 start-up time

    try:
        keep_programs()
    except OutputError as error:
        typer.echo(f"civi: {error}; the fit goes on without", err=True)


def load_model(file: Path, name: str) -> Callable[..., Any]:
    """Execute a Python file, with its folder on the module search path, and return one of its functions.

    Args:
        file: the Python file.
        name: name of the function.
    """
    from civi.problem.target.explain import explain  # noqa: PLC0415 start-up time

    spec = importlib.util.spec_from_file_location(f"civi_model_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise DataError(f"{file} failed when it was executed: {explain(error)}{_line(error, file)}") from error
    finally:
        sys.path.pop(0)
    functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    if name not in vars(module):
        raise unknown(f"model in {file}", name, functions)
    if not callable(vars(module)[name]):
        raise DataError(f"{name} in {file} is not a function")
    return vars(module)[name]


def _split(model: str) -> tuple[Path, str]:
    path, colon, name = model.rpartition(":")
    if not colon or not name or not path:
        raise SettingError(f"'{model}' is not of the form FILE.py:NAME")
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}: check the path")
    return Path(path), name


def _line(error: BaseException, file: Path) -> str:
    """The line of the user's file where the error occurred, as an error suffix."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(file.name)]
    return f" (line {lines[-1]})" if lines else ""


def _finish(posterior: SemiImplicitPosterior, folder: Path, keys: Any, settings: dict[str, Any], report: bool) -> None:
    """Write the result files and the report, and show the summary."""
    from civi.experiment.report.run_report import PAGE  # noqa: PLC0415 start-up time
    from civi.inference.data_groups import axes_of  # noqa: PLC0415 start-up time
    from civi.inference.labelled import datasets, tree_of, write_tree  # noqa: PLC0415 start-up time
    from civi.inference.run_curve import Clock  # noqa: PLC0415 start-up time
    from civi.progress import console, showing  # noqa: PLC0415 start-up time

    draw_key, elbo_key, trust_key = keys
    screen, clock = console(), Clock()
    with showing(screen, "fit: drawing") as say:
        posterior.save(folder / "posterior.civi")
        groups = posterior.groups(draw_key, settings["draws"])
        write_tree(folder / "draws.nc", tree_of(datasets(groups, axes_of(posterior.constrain))))
        say("fit: diagnosing")
        diagnosis, elbo = posterior.diagnose(trust_key, progress=False), posterior.elbo(elbo_key, progress=False)
        write_json(folder / "metrics.json", _metrics(posterior, diagnosis, elbo))
        clock.end("diagnosing")
        if report:
            say("fit: writing the report")
            found = {"findings": diagnosis.findings, "modes": diagnosis.modes, "elbo": tuple(elbo)}
            _write_report(posterior, groups, folder, settings, found | {"phases": posterior.phases | clock.phases})
    screen.print(_summary(groups["posterior"]), diagnosis)
    where = f"files are in {folder}" + (f", the report is {folder / PAGE}" if report else "")
    screen.print(f"elbo {elbo.value:.4f} ± {elbo.se:.4f}; {posterior.message}; {where}", soft_wrap=True)


def _write_report(
    posterior: SemiImplicitPosterior, groups: Any, folder: Path, settings: dict[str, Any], found: dict[str, Any]
) -> None:
    """Write the report; `found` are the results of the checks and the seconds by phase."""
    from civi.experiment.report.run_report import loading_fit, write_run_report  # noqa: PLC0415 start-up time
    from civi.inference.report.gather import gathered  # noqa: PLC0415 start-up time

    code = loading_fit(folder, settings["model"], settings["data"])
    record = {"solver": settings["solver"], "settings": settings, "code": code}
    write_run_report(gathered(posterior, groups, f"Fit of {settings['model']}", **record, **found), folder)


def _metrics(posterior: SemiImplicitPosterior, diagnosis: Any, elbo: Any) -> dict[str, Any]:
    return {
        "dim": posterior.dim,
        "elbo": elbo.value,
        "elbo_se": elbo.se,
        "converged": posterior.converged,
        "message": posterior.message,
        "verdict": diagnosis.verdict,
        "findings": [finding._asdict() for finding in diagnosis.findings],
        "seconds": posterior.seconds,
    }


def _summary(draws: Any) -> Table:
    """A table with mean, sd and 94 % interval of every parameter; at most ROWS rows."""
    from rich.table import Table  # noqa: PLC0415 start-up time

    from civi.inference.summary import summary  # noqa: PLC0415 start-up time

    rows = summary(draws)
    more = f", the first {ROWS} of {len(rows)}" if len(rows) > ROWS else ""
    table = Table("parameter", title=f"posterior{more}")
    for column in ("mean", "sd", "hdi_3%", "hdi_97%"):
        table.add_column(column, justify="right")
    for name, *values in rows[:ROWS]:
        table.add_row(name, *(f"{value:.4g}" for value in values))
    return table
