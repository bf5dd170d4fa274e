"""One complete run: train, evaluate, and write the folder of results."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from civi import interrupts
from civi.errors import CheckpointError
from civi.experiment import run_folder
from civi.experiment.context import RunContext
from civi.experiment.lock import locked
from civi.experiment.plan import RUN_FORMAT, Plan
from civi.experiment.report.history_figure import draw_history
from civi.experiment.report.run_report import loading, write_run_report
from civi.experiment.runners import runner_of
from civi.experiment.tasks.base import Evaluation
from civi.files import make_folder, write_json
from civi.inference.posterior import Posterior
from civi.inference.run_curve import Clock
from civi.inference.settings import Settings
from civi.progress import measures as shown_measures
from civi.progress import result_table
from civi.settings import differences

RECORD = ("steps", "skipped_steps", "seconds", "compile_seconds", "seconds_per_step")


def run(plan: Plan, context: RunContext) -> dict[str, Any]:
    """Fit, evaluate, and write all files of the run.

    Args:
        plan: what to run.
        context: the folder, console, checkpoints and devices.

    Returns:
        The content of metrics.json. Process 0 alone writes files; other processes return an empty dict.
    """
    team = context.team
    if team.mesh is not None:
        plan.settings.check_devices(team.mesh.shape)
    context = replace(context, console=team.console(context.console))
    source = plan.source()
    team.check_same(plan.described(), context.force, context.resume, context.checkpoint_every)
    with ExitStack() as lock:
        team.run_on_leader(lambda: _prepare(plan, context, lock))
        interrupts.advise(f"to resume, repeat the command with --resume (folder {context.folder})")
        posterior, measures = runner_of(plan).run(plan, source, context)
        if not team.is_leader:
            return {}
        metrics, evaluation, phases = _evaluate(plan, posterior, measures, context)
        page = _report(plan, posterior, evaluation, metrics, phases, context) if context.report else None
    console = context.console
    console.print(result_table(metrics))
    where = f"the report is {page}" if page else f"figures are in {context.folder / 'figures'}"
    console.print(f"{posterior.message}; files are in {context.folder}, {where}", soft_wrap=True)
    return metrics


def _prepare(plan: Plan, context: RunContext, lock: ExitStack) -> None:
    """Lock the folder until `lock` is closed, and write config.json or compare with it."""
    if context.resume:
        _check_same_run(plan, context.folder)
    lock.enter_context(locked(context.folder))
    if not context.resume:
        run_folder.prepare(context.folder, force=context.force)
        write_json(context.folder / "config.json", plan.described())
    make_folder(context.folder / "figures")


def _evaluate(
    plan: Plan, posterior: Posterior, measures: dict[str, Any], context: RunContext
) -> tuple[dict[str, Any], Evaluation, dict[str, float]]:
    """Evaluate the posterior; write it, its history, metrics, draws and figures.

    Returns:
        The content of metrics.json, the evaluation, and the seconds that measuring and drawing took.
    """
    folder, clock = context.folder, Clock()
    posterior.save(folder / "posterior.civi", overwrite=True)
    if posterior.history:
        run_folder.write_history(folder / "history.csv", posterior.history)
    with context.console.status("measuring") as status:
        evaluated = plan.task.evaluate(
            posterior,
            plan.keys(plan.seed)[2:],
            "full",
            lambda done, total: status.update(f"measuring: {done} of {total}"),
        )
        metrics = plan.names() | measures | evaluated.measures
        write_json(folder / "metrics.json", metrics)
        run_folder.write_draws(folder / "draws.nc", evaluated.draws, plan.names())
        clock.end("measuring")
        status.update("drawing figures")
        if posterior.history:
            draw_history(posterior.history, folder / "figures" / "history.png")
        plan.task.draw(posterior, {plan.solver: evaluated.shown}, folder / "figures")
        clock.end("drawing figures")
    return metrics, evaluated, clock.phases


def _report(
    plan: Plan,
    posterior: Posterior,
    evaluation: Evaluation,
    metrics: dict[str, Any],
    phases: dict[str, float],
    context: RunContext,
) -> Path:
    """Write the report of the run."""
    with context.console.status("writing the report"):
        names = plan.names()
        found = plan.task.content(posterior, evaluation, plan.seed)
        options = {name: str(value) for name, value in plan.task.options.items()}
        content = replace(
            found,
            title=f"{plan.task.name} with {plan.solver}, seed {plan.seed}",
            solver=plan.solver,
            measures=_results_first(dict(shown_measures(metrics))),
            phases=posterior.phases | phases,
            settings=names | {row.name: row.value for row in plan.settings.listing()},
            training_note=_weight_note(plan.settings),
            fingerprints=options | _data_of(metrics) | found.fingerprints,
            code=loading(context.folder),
        )
        return write_run_report(content, context.folder)


def _results_first(measures: dict[str, str]) -> dict[str, str]:
    """The measures without those that the report shows elsewhere, and the record of the training last."""
    kept = {name: value for name, value in measures.items() if name not in ("seed", "status", "data")}
    record = {name: kept.pop(name) for name in list(kept) if name in RECORD}
    return kept | record


def _data_of(metrics: dict[str, Any]) -> dict[str, str]:
    """Which data the task used, if it says so."""
    return {"data": str(metrics["data"])} if "data" in metrics else {}


def _weight_note(settings: Any) -> str:
    """What the objective of an autoencoder is if its KL term has a weight below 1; empty otherwise."""
    if not isinstance(settings, Settings):
        return ""
    steps, weight = settings.problem.warm_up, settings.problem.kl_weight
    notes = [f"log p(x | z) counts {1 / weight:.3g} times, because the KL term has weight {weight:g}."] * (weight != 1)
    if steps is not None:
        again = " more" if notes else ""
        notes.append(
            f"Before step {steps:,} log p(x | z) counts {steps:,} / step times{again}, so values are higher there."
        )
    return " ".join(notes)


def _check_same_run(plan: Plan, folder: Path) -> None:
    """Raise an error if the run in the folder was started with different settings."""
    try:
        saved = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise CheckpointError(f"there is no run in {folder} to resume: run without --resume") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / 'config.json'} cannot be read: {error}") from error
    found = saved.get("format", 1) if isinstance(saved, dict) else None
    if found != RUN_FORMAT:
        raise CheckpointError(
            f"{folder} holds a run of format {found}, but this version of civi resumes format {RUN_FORMAT}: resume it "
            "with the version that started it, or start again with --force"
        )
    changed = differences(saved, json.loads(json.dumps(plan.described())))
    if changed:
        raise CheckpointError(
            f"{folder} was started with different settings ({'; '.join(changed)}): resume with the same ones"
        )
