"""The only training loop: compiled blocks of steps for any solver.

A block runs a number of steps that is an argument, not a shape, so one compiled program serves every block length and
the numbers do not depend on it. Step t draws from fold_in(key, t).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from civi.solver.base import Info, Model, Solver, split
from civi.target import check_shape, check_values

CAPACITY = 500
PATIENCE = 50


class RunState(NamedTuple):
    """Everything a run needs to go on: a checkpoint holds just this and the history."""

    key: PRNGKeyArray
    done: Int[Array, ""]
    solver: Any
    output: Model
    skipped: Int[Array, ""]
    skipped_in_a_row: Int[Array, ""]


class Record(NamedTuple):
    """One row of the history."""

    info: Info
    skipped: Bool[Array, ""]


@dataclass(frozen=True)
class Trained:
    """A run: the fitted model, the state to go on from, the history by column, and what happened."""

    model: Model
    state: RunState
    history: dict[str, np.ndarray]
    status: str
    message: str
    seconds: float
    compile_seconds: float

    @property
    def skipped(self) -> int:
        """How many steps were not finite and left the parameters as they were."""
        return int(self.state.skipped)


Watcher = Callable[[RunState, dict[str, np.ndarray]], None]


def start(solver: Solver, model: Model, key: PRNGKeyArray) -> RunState:
    """The state before the first step; refuses a target that cannot be evaluated at the first draws."""
    check_shape(model.target)
    state, first_draws, log_p = _start(solver, model, key)
    check_values(first_draws, log_p)
    return state


@eqx.filter_jit
def _start(solver: Solver, model: Model, key: PRNGKeyArray) -> tuple[RunState, Array, Array]:
    init_key, check_key, run_key = jax.random.split(key, 3)
    first_draws = model.family.sample(check_key, 64)
    state, zero = solver.init(model, init_key), jnp.asarray(0)
    log_p = jax.vmap(model.target.log_prob)(first_draws)
    return RunState(run_key, zero, state, state.params, zero, zero), first_draws, log_p


def train(
    solver: Solver,
    model: Model,
    key: PRNGKeyArray,
    *,
    resume: tuple[RunState, dict[str, np.ndarray]] | None = None,
    watch: Watcher | None = None,
    pause_every: int = CAPACITY,
    block: int | None = None,
    block_seconds: float = 0.25,
) -> Trained:
    """Run `solver` to its last step. `watch` is called after every block with the state and the history so far.

    No block runs across a multiple of `pause_every`, so that `watch` sees every one of them. `block` fixes the number
    of steps in a block; by default it is chosen to take about `block_seconds`.
    """
    begun = time.perf_counter()
    state, history = resume if resume else (start(solver, model, key), empty_history())
    fixed = split(model)[1]
    elapsed = float(history["seconds"][-1]) if len(history["seconds"]) else 0.0
    run_block = cast(Any, _block).lower(solver, fixed, state, jnp.asarray(1)).compile()
    compile_seconds = time.perf_counter() - begun
    clock = time.perf_counter()
    length = block or 1
    while int(state.done) < solver.steps and int(state.skipped_in_a_row) < PATIENCE:
        before = int(state.done)
        count = min(length, CAPACITY, solver.steps - before, pause_every - before % pause_every)
        state, records = run_block(solver, fixed, state, jnp.asarray(count))
        done = int(state.done)
        seconds, clock = time.perf_counter() - clock, time.perf_counter()
        history = _extend(history, records, before, done, elapsed, seconds)
        elapsed += seconds
        length = block or max(1, min(2 * count, round(block_seconds * (done - before) / seconds)))
        if watch:
            watch(state, history)
    status, message = _verdict(state, solver)
    return Trained(eqx.combine(state.output, fixed), state, history, status, message, elapsed, compile_seconds)


@eqx.filter_jit
def _block(solver: Solver, fixed: Model, state: RunState, count: Int[Array, ""]) -> tuple[RunState, Record]:
    """Up to `count` steps; ends early when PATIENCE steps in a row were not finite."""
    empty = Record(Info(*(jnp.zeros(CAPACITY) for _ in Info._fields)), jnp.zeros(CAPACITY, bool))
    first = state.done

    def more(carry: tuple[RunState, Record]) -> Array:
        return (carry[0].done - first < count) & (carry[0].skipped_in_a_row < PATIENCE)

    def body(carry: tuple[RunState, Record]) -> tuple[RunState, Record]:
        state, records = carry
        new, record = _guarded_step(solver, fixed, state)
        return new, jax.tree.map(lambda all_, one: all_.at[state.done - first].set(one), records, record)

    return jax.lax.while_loop(more, body, (state, empty))


def _guarded_step(solver: Solver, fixed: Model, state: RunState) -> tuple[RunState, Record]:
    """One step of the solver, undone where it is not finite."""
    t = state.done + 1
    step_key, output_key = jax.random.split(jax.random.fold_in(state.key, t))
    new, info = solver.step(fixed, state.solver, t, step_key)
    good = _all_finite((new.params, info)) & ~_any_nan(new)
    kept = jax.tree.map(lambda a, b: _where(good, a, b), new, state.solver)
    output = _output(solver, state.output, kept.params, t, output_key)
    in_a_row = jnp.where(good, 0, state.skipped_in_a_row + 1)
    return RunState(state.key, t, kept, output, state.skipped + ~good, in_a_row), Record(info, ~good)


def _output(solver: Solver, output: Model, params: Model, t: Array, key: PRNGKeyArray) -> Model:
    """last: theta_t. average: mean of the second half of the iterates. uniform: one iterate, each equally likely."""
    if solver.output == "average":
        rate = 1 / jnp.maximum(t - solver.steps // 2, 1)
        return jax.tree.map(lambda mean, new: mean + rate * (new - mean), output, params)
    if solver.output == "uniform":
        take = jax.random.uniform(key) < 1 / t
        return jax.tree.map(lambda old, new: jnp.where(take, new, old), output, params)
    return params


def _where(condition: Array, new: Array, old: Array) -> Array:
    if jnp.issubdtype(new.dtype, jax.dtypes.prng_key):
        return old
    return jnp.where(condition, new, old)


def _floats(tree: Any) -> list[Array]:
    return [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _all_finite(tree: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in _floats(tree)]).all()


def _any_nan(tree: Any) -> Array:
    return jnp.stack([jnp.isnan(leaf).any() for leaf in _floats(tree)]).any()


def empty_history() -> dict[str, np.ndarray]:
    """A history with no rows."""
    names = ("step", *Info._fields, "skipped", "seconds")
    return {name: np.zeros(0) for name in names}


def _extend(
    history: dict[str, np.ndarray], records: Record, before: int, done: int, elapsed: float, seconds: float
) -> dict[str, np.ndarray]:
    """Append a block's rows; within a block the seconds are spread evenly."""
    count = done - before
    rows = {name: np.asarray(values)[:count] for name, values in records.info._asdict().items()}
    rows["step"] = np.arange(before + 1, done + 1)
    rows["skipped"] = np.asarray(records.skipped)[:count]
    rows["seconds"] = elapsed + seconds * np.arange(1, count + 1) / max(count, 1)
    return {name: np.concatenate([column, rows[name].astype(float)]) for name, column in history.items()}


def _verdict(state: RunState, solver: Solver) -> tuple[str, str]:
    done, skipped = int(state.done), int(state.skipped)
    if int(state.skipped_in_a_row) >= PATIENCE:
        good = done - int(state.skipped_in_a_row)
        return "stopped", (
            f"stopped at step {done} of {solver.steps}: {PATIENCE} steps in a row were not finite; the parameters of "
            f"step {good} are kept. Try a smaller learning rate, inner_mean=safe or update.clip=10"
        )
    note = f", {skipped} steps that were not finite were skipped" if skipped else ""
    return "finished", f"finished {done} steps{note}"
