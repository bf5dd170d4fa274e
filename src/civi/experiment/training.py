"""Runs of a solver that is trained: a single run with checkpoints, or many seeds in one compiled program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from civi import interrupts
from civi.errors import require
from civi.experiment.checkpoint import Checkpoints, History
from civi.experiment.context import RunContext
from civi.experiment.plan import Plan
from civi.experiment.solver_result import Curve, SolverResult
from civi.inference.posterior import AmortisedPosterior, Posterior, SemiImplicitPosterior
from civi.parallel.mesh import on_device, on_host, place, replicate_to_mesh
from civi.parts import split
from civi.problem import AutoencoderProblem, make_problem
from civi.problem.target import Framed
from civi.problem.target.feeding import feeding, log_offset, streamed_part, with_window
from civi.progress import TrainingBar, time_left
from civi.solver import RunState, Trained, train
from civi.solver.loop import empty_history, halted, start

POINTS = 20


def run_training(plan: Plan, source: Any, context: RunContext) -> tuple[Posterior, dict[str, Any]]:
    """Train once, with a progress bar and checkpoints.

    Args:
        plan: what to run.
        source: the target, or the data of an autoencoder.
        context: folder, console, checkpoints, processes and devices.

    Returns:
        The posterior, and status and times for metrics.json.
    """
    begun, settings, team = time.perf_counter(), plan.settings, context.team
    family_key, train_key, *_ = plan.keys(plan.seed)
    with context.console.status(f"{plan.task.name}: pilot"):
        seen = settings.pilot.look(source)
    pilot_seconds = time.perf_counter() - begun
    warn = None if team.has_others else context.warn
    checkpoints = Checkpoints(context.folder / "checkpoints", context.checkpoint_every, warn)
    problem = make_problem(settings.family, seen, family_key, settings.problem)
    if team.mesh is None:
        trained = train_and_save(plan, problem, train_key, checkpoints, context)
    else:
        trained = _train_on_mesh(plan, problem, train_key, checkpoints, context, team.mesh)
    team.leave()
    history = trained.history | {"neg_elbo": trained.history["neg_elbo"] - log_offset(seen)}
    seconds = time.perf_counter() - begun
    phases = {"pilot": pilot_seconds, "compiling": trained.compile_seconds, "training": trained.seconds}
    phases["setting up and checkpoints"] = max(0.0, seconds - sum(phases.values()))
    record = {"history": history, "message": trained.message, "seconds": trained.seconds, "phases": phases}
    measures = _training_measures(trained, seconds)
    return posterior_of(with_window(trained.problem), **record), measures


def _train_on_mesh(
    plan: Plan, problem: Any, key: jax.Array, checkpoints: Checkpoints, context: RunContext, mesh: Mesh
) -> Trained:
    """Train with samples and data sharded over the mesh; the result is copied back to this process's own device."""
    team, divided = context.team, plan.settings.problem.batch is not None and not context.team.whole_data
    streamed = streamed_part(problem) is not None
    require(not (streamed and team.whole_data), "--whole-data keeps all rows in memory, but they are read from disk")
    home = on_host(split(problem)[1])
    problem = place(problem, mesh, rows=divided)
    with team.training():
        trained = train_and_save(plan, problem, key, checkpoints, context)
    checkpoints.close()
    return replace(trained, problem=on_device(eqx.combine(on_host(trained.state.output), home)))


def train_and_save(plan: Plan, problem: Any, key: jax.Array, checkpoints: Checkpoints, context: RunContext) -> Trained:
    """Train with a progress bar and checkpoints of the start and the end; if interrupted, of the last block.

    With several processes, none can save alone, so an interrupted run keeps only its last regular checkpoint.

    Args:
        plan: what to run.
        problem: the problem at its initial parameters.
        key: random key of the training.
        checkpoints: where checkpoints are saved, and restored from if `context.resume` is set.
        context: console, processes and devices.
    """
    solver, console, team = plan.settings.solver, context.console, context.team
    offset = log_offset(getattr(problem, "target", None))
    with (
        TrainingBar(console, plan.task.name, solver.steps) as bar,
        feeding(problem, plan.seed, plan.settings.problem.batch, team.mesh) as feed,
    ):
        problem = feed(problem, 0)[0]
        state, history = start(solver, problem, key), empty_history()
        interrupted_early = checkpoints.is_empty and not (context.folder / "metrics.json").exists()
        if context.resume and interrupted_early:
            console.print("no checkpoint was written before the interruption: starting at step 0", soft_wrap=True)
        elif context.resume:
            state, history, damaged = checkpoints.restore(state)
            for line in damaged:
                context.warn(line)
        state = state if team.mesh is None else replicate_to_mesh(state, team.mesh)
        latest = [(state, history)]
        checkpoints.save(*latest[0])

        def watch(state: RunState, history: History) -> None:
            latest[0] = (state, history)
            checkpoints.save_if_due(state, history)
            bar.update(int(state.done), float(history["neg_elbo"][-20:].mean()) - offset)
            interrupts.check()

        try:
            resumed, every = (state, history), checkpoints.every
            trained = train(solver, problem, key, resume=resumed, watch=watch, pause_every=every, feed=feed)
        except BaseException:
            if not team.has_others:
                checkpoints.save(*latest[0])
            raise
        checkpoints.save(*latest[0])
    return trained


def posterior_of(problem: Any, **record: Any) -> Posterior:
    """The posterior of a trained problem; `record` holds the history, message and seconds of the training."""
    if isinstance(problem, AutoencoderProblem):
        return AmortisedPosterior(family=problem.family, decoder=problem.decoder, latent_dim=problem.dim, **record)
    target = problem.target.settled() if isinstance(problem.target, Framed) else problem.target
    return SemiImplicitPosterior(family=problem.family, target=target, **record)


def _training_measures(trained: Trained, seconds: float) -> dict[str, Any]:
    """Entries of metrics.json. `seconds` is the whole fit with compilation; `seconds_per_step` excludes compilation."""
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


def train_seeds(plan: Plan, seeds: Sequence[int], progress: Callable[[str], None]) -> SolverResult:
    """Train all seeds in one compiled program, and evaluate each.

    Args:
        plan: what to run; its own seed is not used.
        seeds: the seeds.
        progress: called with a description of the current work.
    """
    settings, source = plan.settings, plan.source()
    solver = settings.solver
    progress("pilot")
    seen = settings.pilot.look(source)
    family_keys, train_keys, measure_keys, draw_keys = jnp.stack([plan.keys(seed) for seed in seeds], axis=1)

    def problem_of(key: jax.Array) -> Any:
        return make_problem(settings.family, seen, key, settings.problem)

    fixed = split(problem_of(family_keys[0]))[1]
    params = eqx.filter_vmap(lambda key: split(problem_of(key))[0])(family_keys)
    curve = Curve()

    @eqx.filter_jit
    def neg_elbo(params: Any, fixed: Any) -> jax.Array:
        return jax.lax.map(lambda params: plan.task.quick_neg_elbo(eqx.combine(params, fixed)), params)

    def add_point(step: int, seconds: float, params: Any) -> None:
        curve.step.append(step)
        curve.seconds.append(seconds / len(seeds))
        curve.neg_elbo.append((np.asarray(neg_elbo(params, fixed)) - log_offset(seen)).tolist())

    def watch(state: RunState, history: History) -> None:
        done = int(state.done.max())
        if done % pause == 0 or done == solver.steps:
            add_point(done, float(history["seconds"][-1]), state.output)
        left = time_left(float(history["seconds"][-1]), done, solver.steps - done)
        progress(f"step {done} of {solver.steps}, {left}")
        interrupts.check()

    pause = max(1, solver.steps // POINTS)
    progress("compiling")
    add_point(0, 0.0, params)
    problem = eqx.combine(params, fixed)
    with feeding(problem, seeds[0], settings.problem.batch) as feed:
        problem = feed(problem, 0)[0]
        trained = train(solver, problem, train_keys, watch=watch, pause_every=pause, feed=feed)
    evaluated = []
    for i in range(len(seeds)):
        progress(f"measuring, seed {i + 1} of {len(seeds)}")
        one = eqx.combine(jax.tree.map(lambda leaf, i=i: leaf[i], trained.state.output), fixed)
        evaluated.append(plan.task.evaluate(posterior_of(one), (measure_keys[i], draw_keys[i]), "quick"))
    batch = settings.problem.batch
    return SolverResult(
        plan.solver,
        [one.measures for one in evaluated],
        curve,
        [_diverged_at(curve, i, trained.state) for i in range(len(seeds))],
        trained.seconds / len(seeds),
        trained.compile_seconds,
        solver.steps,
        plan.described()["settings"],
        evaluated[0].shown,
        None if batch is None else batch / source.rows,
    )


def _diverged_at(curve: Curve, seed: int, state: RunState) -> int | None:
    """The step at which a run diverged; None if it did not.

    A run has diverged if it was halted, or if at its end neg_elbo is not finite or more than one nat above its initial
    value. The tolerance of one nat is needed because a run with a pilot may start at the optimum.
    """
    if halted(state)[seed]:
        return int(state.done[seed])
    values = np.array(curve.neg_elbo)[:, seed]
    bad = ~(values <= values[0] + 1)
    if not bad[-1]:
        return None
    return int(np.array(curve.step)[len(bad) - np.argmin(bad[::-1])])
