"""One run from a task's name to a folder of results."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
from rich.console import Console

from civi.errors import CheckpointError, SettingError
from civi.experiment.checkpoint import Checkpoints, History
from civi.experiment.config import differences
from civi.experiment.plan import Plan
from civi.experiment.report import files
from civi.experiment.report.history_figure import draw_history
from civi.experiment.report.progress import TrainingBar, flat, result_table
from civi.experiment.tasks.posterior import PosteriorTask
from civi.inference.nuts import Nuts
from civi.parallel.mesh import everywhere, on_device, on_host, place
from civi.parallel.team import ALONE, Team, check_divides
from civi.solver import Model, RunState, Trained, train
from civi.solver.base import split
from civi.solver.loop import empty_history, start


def run(
    plan: Plan,
    folder: Path,
    console: Console,
    *,
    force: bool,
    resume: bool,
    checkpoint_every: int | None,
    team: Team = ALONE,
) -> dict[str, Any]:
    """Fit, measure, and write every file of the run; returns the metrics (of many processes, only the leader does)."""
    if checkpoint_every is not None and checkpoint_every < 1:
        raise SettingError(f"--checkpoint-every must be at least 1, not {checkpoint_every}")
    if team.mesh is not None:
        check_divides(plan.settings.solver, team.mesh.shape)
    console = team.console(console)
    target = plan.make_target()
    team.check_same(plan.described(), force, resume, checkpoint_every)
    team.first(lambda: _prepare(plan, folder, force=force, resume=resume))
    if isinstance(plan.settings.solver, Nuts):
        metrics, message = _run_reference(plan, target, folder, console)
    else:
        begun = time.perf_counter()
        trained = _run_family(
            plan, target, folder, console, resume=resume, checkpoint_every=checkpoint_every, team=team
        )
        team.part()
        if not team.leads:
            return {}
        metrics = _judge(plan, trained, time.perf_counter() - begun, folder, console)
        message = trained.message
    console.print(result_table(metrics, flat(plan.described()["settings"])))
    console.print(f"{message}; files are in {folder}, figures in {folder / 'figures'}", soft_wrap=True)
    return metrics


def _prepare(plan: Plan, folder: Path, *, force: bool, resume: bool) -> None:
    if resume:
        _check_same_run(plan, folder)
    else:
        files.prepare(folder, force=force)
        files.write_json(folder / "config.json", plan.described())
    (folder / "figures").mkdir(exist_ok=True)


def _run_family(
    plan: Plan, target: Any, folder: Path, console: Console, *, resume: bool, checkpoint_every: int | None, team: Team
) -> Trained:
    family_key, train_key, *_ = plan.keys(plan.seed)
    with console.status(f"{plan.task.name}: first look"):
        seen = plan.settings.pilot.look(target)
    checkpoints = Checkpoints(folder / "checkpoints", every=checkpoint_every)
    model = Model.make(plan.settings.family, seen, family_key)
    if team.mesh is None:
        return train_and_save(plan, model, train_key, checkpoints, console, resume=resume, team=team)
    home = on_host(split(model)[1])
    model = place(model, team.mesh, rows=plan.settings.solver.samples.batch > 0 and not team.whole_data)
    with team.training():
        trained = train_and_save(plan, model, train_key, checkpoints, console, resume=resume, team=team)
    checkpoints.close()
    return replace(trained, model=on_device(eqx.combine(on_host(trained.state.output), home)))


def _judge(plan: Plan, trained: Trained, seconds: float, folder: Path, console: Console) -> dict[str, Any]:
    """Measure the fitted model; write history, metrics, draws and figures."""
    _, _, measure_key, draw_key = plan.keys(plan.seed)
    files.write_history(folder / "history.csv", trained.history)
    with console.status("measuring") as status:
        judged = plan.task.judge(
            trained.model, (measure_key, draw_key), lambda done, of: status.update(f"measuring: {done} of {of}")
        )
        metrics = _names(plan) | _training_measures(trained, seconds) | judged.measures
        files.write_json(folder / "metrics.json", metrics)
        files.write_draws(folder / "draws.nc", judged.draws, _names(plan))
        status.update("drawing")
        draw_history(trained.history, folder / "figures" / "history.png")
        plan.task.draw(trained.model, {plan.solver: judged.draws}, folder / "figures")
    return metrics


def _run_reference(plan: Plan, target: Any, folder: Path, console: Console) -> tuple[dict[str, Any], str]:
    """NUTS: draws and their trustworthiness; there is no family, so no density, history or checkpoint."""
    nuts, task = plan.settings.solver, cast(PosteriorTask, plan.task)
    begun = time.perf_counter()
    with console.status(f"{plan.task.name}: sampling {nuts.chains} chains"):
        reference = nuts.cached(plan.task.name, target, plan.seed)
        metrics = _names(plan) | {
            "status": "finished",
            "steps": nuts.warmup + nuts.draws,
            "seconds": time.perf_counter() - begun,
            "seconds_per_step": (time.perf_counter() - begun) / (nuts.warmup + nuts.draws),
            "neg_elbo": None,
            "neg_elbo_se": None,
            "r_hat": float(reference.r_hat.max()),
            "effective_size": float(reference.effective_size.min()),
            "divergences": reference.divergences,
        }
        draws = reference.pooled(task.draws)
        metrics |= task.measure(target, draws, None)
        files.write_json(folder / "metrics.json", metrics)
        files.write_draws(folder / "draws.nc", reference.draws, _names(plan))
        task.picture(target, None, {plan.solver: draws}, folder / "figures")
    return metrics, f"{nuts.chains} chains of {nuts.draws} draws"


def _names(plan: Plan) -> dict[str, Any]:
    return {"task": plan.task.name, "solver": plan.solver, "recipe": plan.recipe, "seed": plan.seed}


def train_and_save(
    plan: Plan,
    model: Model,
    key: jax.Array,
    checkpoints: Checkpoints,
    console: Console,
    *,
    resume: bool,
    team: Team = ALONE,
) -> Trained:
    """Train with a progress bar and checkpoints; an interrupted run leaves a checkpoint of its last block.

    Of many processes none can save alone, so that one that is interrupted leaves the checkpoint before.
    """
    solver = plan.settings.solver
    with TrainingBar(console, plan.task.name, solver.steps) as bar:
        state, history = start(solver, model, key), empty_history()
        if resume:
            state, history, damaged = checkpoints.restore(state)
            for line in damaged:
                console.print(f"civi: warning: {line}", style="yellow", soft_wrap=True)
        state = state if team.mesh is None else everywhere(state, team.mesh)
        latest = [(state, history)]

        def watch(state: RunState, history: History) -> None:
            latest[0] = (state, history)
            checkpoints.save_if_due(state, history)
            bar.update(int(state.done), float(history["neg_elbo"][-20:].mean()))

        try:
            trained = train(solver, model, key, resume=(state, history), watch=watch, pause_every=checkpoints.every)
        except BaseException:
            if not team.is_many:
                checkpoints.save(*latest[0])
            raise
        checkpoints.save(*latest[0])
    return trained


def _training_measures(trained: Trained, seconds: float) -> dict[str, Any]:
    """seconds is the whole fit, compilation included; seconds_per_step is without it."""
    steps = len(trained.history["step"])
    return {
        "status": trained.status,
        "message": trained.message,
        "steps": steps,
        "skipped_steps": trained.skipped,
        "seconds": seconds,
        "compile_seconds": trained.compile_seconds,
        "seconds_per_step": trained.seconds / max(steps, 1),
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
