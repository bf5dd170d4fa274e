"""Several solvers on one task, judged by one estimator: never by each method's own loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.live import Live

from civi.errors import require
from civi.experiment.config import describe
from civi.experiment.outcome import Curve, Outcome, ranked
from civi.experiment.plan import Plan
from civi.experiment.report import files
from civi.experiment.report.comparison import draw_curves, live_table, markdown
from civi.experiment.tasks.posterior import PosteriorTask
from civi.inference.nuts import Nuts
from civi.problem.target import BatchedTarget
from civi.solver import Model, RunState, train
from civi.solver.base import split
from civi.solver.loop import halted

POINTS = 20
Progress = Callable[[int], None]


def run_solver(plan: Plan, seeds: Sequence[int], progress: Progress) -> Outcome:
    """Fit with every seed inside one compiled program where the method trains a family."""
    if isinstance(plan.settings.solver, Nuts):
        return _run_reference(plan, seeds)
    solver, target = plan.settings.solver, plan.make_target()
    seen = plan.settings.pilot.look(cast(Any, target))
    family_keys, train_keys, measure_keys, draw_keys = jnp.stack([plan.keys(seed) for seed in seeds], axis=1)
    fixed = split(Model.make(plan.settings.family, seen, family_keys[0]))[1]
    params = eqx.filter_vmap(lambda key: split(Model.make(plan.settings.family, seen, key))[0])(family_keys)
    model = eqx.combine(params, fixed)
    curve = Curve()

    @eqx.filter_jit
    def glance(params: Model, fixed: Model) -> jax.Array:
        return jax.lax.map(lambda params: plan.task.glance(eqx.combine(params, fixed)), params)

    def look(step: int, seconds: float, params: Model) -> None:
        curve.step.append(step)
        curve.seconds.append(seconds / len(seeds))
        curve.neg_elbo.append(np.asarray(glance(params, fixed)).tolist())

    def watch(state: RunState, history: dict[str, np.ndarray]) -> None:
        done = int(state.done.max())
        if done % pause == 0 or done == solver.steps:
            look(done, float(history["seconds"][-1]), state.output)
        progress(done)

    pause = max(1, solver.steps // POINTS)
    look(0, 0.0, params)
    trained = train(solver, model, train_keys, watch=watch, pause_every=pause)
    measures, draws = [], []
    for i in range(len(seeds)):
        one = eqx.combine(jax.tree.map(lambda leaf, i=i: leaf[i], trained.state.output), fixed)
        judged = plan.task.judge(one, (measure_keys[i], draw_keys[i]))
        measures.append(judged.measures)
        draws.append(judged.draws)
    return Outcome(
        plan.solver,
        measures,
        curve,
        [_diverged_at(curve, i, trained.state) for i in range(len(seeds))],
        trained.seconds / len(seeds),
        trained.compile_seconds,
        solver.steps,
        plan.described()["settings"],
        draws[0],
        solver.samples.batch / cast(BatchedTarget, target).rows if solver.samples.batch else None,
    )


def _run_reference(plan: Plan, seeds: Sequence[int]) -> Outcome:
    target, nuts, task = plan.task.make(), plan.settings.solver, cast(PosteriorTask, plan.task)
    begun = time.perf_counter()
    references = [nuts.cached(task.name, target, seed) for seed in seeds]
    seconds = (time.perf_counter() - begun) / len(seeds)
    measures, shown = [], references[0].pooled(task.draws)
    for reference in references:
        trust = {"r_hat": float(reference.r_hat.max()), "effective_size": float(reference.effective_size.min())}
        measures.append(trust | task.measure(target, reference.pooled(task.draws), None))
    never: list[int | None] = [None] * len(seeds)
    return Outcome("nuts", measures, Curve(), never, seconds, 0.0, nuts.warmup + nuts.draws, describe(nuts), shown)


def _diverged_at(curve: Curve, seed: int, state: RunState) -> int | None:
    """The step from which on a run was worse than where it started or not finite; None if it ended better.

    Worse by a nat or more: with a pilot, a run may start at the optimum.
    """
    if halted(state)[seed]:
        return int(state.done[seed])
    values = np.array(curve.neg_elbo)[:, seed]
    bad = ~(values <= values[0] + 1)
    if not bad[-1]:
        return None
    return int(np.array(curve.step)[len(bad) - np.argmin(bad[::-1])])


def compare(plans: Sequence[Plan], seeds: int, folder: Path, console: Console, *, force: bool) -> list[Outcome]:
    """Run every plan with seeds 0, 1, ..., show the table as it grows, and write it after every solver."""
    require(seeds >= 1, f"--seeds must be at least 1, not {seeds}")
    require(len(plans) > 0, "--solvers names no solver: give names with commas, or all")
    task, numbers = plans[0].task, range(seeds)
    for plan in plans:
        plan.make_target()
    files.prepare(folder, force=force)
    (folder / "figures").mkdir(exist_ok=True)
    done: list[Outcome] = []
    names = [plan.solver for plan in plans]
    with Live(live_table(done, names, "compiling", task), console=console, auto_refresh=False) as live:
        for i, plan in enumerate(plans):
            waiting = names[i:]

            def progress(step: int, plan: Plan = plan, waiting: Sequence[str] = waiting) -> None:
                now = f"step {step} of {getattr(plan.settings.solver, 'steps', 0)}"
                live.update(live_table(done, waiting, now, task), refresh=True)

            done.append(run_solver(plan, numbers, progress))
            best_first = ranked(done, task.rank_by)
            content = {"task": task.name, "rank_by": task.rank_by, "seeds": list(numbers)}
            solvers = [outcome.as_json() for outcome in best_first]
            files.write_json(folder / "comparison.json", content | {"solvers": solvers})
            live.update(live_table(done, names[i + 1 :], "compiling", task), refresh=True)
    files.write_text(folder / "comparison.md", markdown(best_first, task))
    draw_curves(best_first, task, folder / "figures" / "curves.png")
    with console.status("drawing"):
        task.draw_comparison(task.make(), {outcome.solver: outcome.draws for outcome in done}, folder / "figures")
    console.print(f"table, figures and comparison.json are in {folder}", soft_wrap=True)
    return best_first
