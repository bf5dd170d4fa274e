"""The only training loop: compiled blocks of steps for any solver.

The number of steps in a block is an argument of the compiled program, not a shape. One program therefore serves every
block length, and the results do not depend on the block length. Step t draws from fold_in(key, t).
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
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from civi.parallel.mesh import broadcast_scalar, replicate
from civi.parts import split
from civi.problem.target.base import check_values
from civi.problem.target.feeding import Feeding, unchanged
from civi.solver.base import Info, Solver

CAPACITY = 500
FIRST_DRAWS = 64
PATIENCE = 50
COLUMNS = (*Info._fields, "skipped")
Rows = Float[Array, "*runs steps columns"]


class RunState(NamedTuple):
    """Everything needed to resume a run; a checkpoint holds this and the history."""

    key: PRNGKeyArray
    done: Int[Array, ""]
    solver: Any
    output: Any
    skipped: Int[Array, ""]
    skipped_in_a_row: Int[Array, ""]


@dataclass(frozen=True)
class Trained:
    """Result of a run: the fitted problem, the state to resume from, and the history by column.

    `seconds` is the time spent in the steps, and `loop_seconds` the wall time of the whole loop including callbacks.
    """

    problem: Any
    state: RunState
    history: dict[str, np.ndarray]
    steps: int
    seconds: float
    compile_seconds: float
    loop_seconds: float

    @property
    def skipped(self) -> int:
        """Number of non-finite steps, which left the parameters unchanged."""
        return int(self.state.skipped)

    @property
    def status(self) -> str:
        """finished or stopped."""
        return "stopped" if halted(self.state) else "finished"

    @property
    def message(self) -> str:
        """The outcome in one sentence."""
        done = int(self.state.done)
        if self.status == "finished":
            note = f", {self.skipped} non-finite steps were skipped" if self.skipped else ""
            return f"finished {done} steps{note}"
        return (
            f"stopped at step {done} of {self.steps}: {PATIENCE} steps in a row were not finite; the parameters of "
            f"step {done - PATIENCE} are kept. Try a smaller learning rate, objective.inner_mean=safe or update.clip=10"
        )


Watcher = Callable[[RunState, dict[str, np.ndarray]], bool | None]


def start(solver: Solver, problem: Any, key: Key[Array, "*runs"]) -> RunState:
    """The state before the first step; raises TargetError if the problem cannot be evaluated at the first draws.

    Args:
        solver: the solver.
        problem: the problem; for several runs, each trained array has a leading axis for the runs.
        key: one key, or an array with one key per independent run.
    """
    params, fixed = split(problem)
    one_run = params if key.ndim == 0 else jax.tree.map(lambda leaf: leaf[0], params)
    eqx.combine(one_run, fixed).check()
    program = _start if key.ndim == 0 else _starts
    state, first_draws, log_p = eqx.filter_jit(program)(solver, params, fixed, key)
    check_values(first_draws.reshape(-1, first_draws.shape[-1]), log_p.reshape(-1))
    return state


def _start(solver: Solver, params: Any, fixed: Any, key: PRNGKeyArray) -> tuple[RunState, Array, Array]:
    problem: Any = eqx.combine(params, fixed)
    init_key, check_key, run_key = jax.random.split(key, 3)
    first_draws, log_p = problem.first_values(check_key, FIRST_DRAWS)
    return replicate((begin(solver, problem, init_key, run_key), first_draws, log_p))


def _starts(solver: Solver, params: Any, fixed: Any, keys: Key[Array, " runs"]) -> tuple[RunState, Array, Array]:
    """`_start` for every run in sequence, because random numbers under vmap take long to compile."""
    return jax.lax.map(lambda run: _start(solver, run[0], fixed, run[1]), (params, keys))


def begin(solver: Solver, problem: Any, init_key: PRNGKeyArray, run_key: PRNGKeyArray) -> RunState:
    """The state before the first step, without checks. Step t will draw from fold_in(run_key, t)."""
    state, zero = solver.init(problem, init_key), jnp.asarray(0)
    return _strong(RunState(run_key, zero, state, state.params, zero, zero))


def _strong(state: RunState) -> RunState:
    """The state without weak types, so that a restored checkpoint uses the same compiled program."""
    return jax.tree.map(lambda leaf: leaf if _is_key(leaf) else leaf.astype(leaf.dtype), state)


def train(
    solver: Solver,
    problem: Any,
    key: Key[Array, "*runs"],
    *,
    resume: tuple[RunState, dict[str, np.ndarray]] | None = None,
    watch: Watcher | None = None,
    pause_every: int = CAPACITY,
    block: int | None = None,
    block_seconds: float = 0.25,
    feed: Feeding = unchanged,
) -> Trained:
    """Run `solver` to its last step; with an array of keys (see `start`), several runs in one program.

    Args:
        solver: the solver.
        problem: the problem before the first step.
        key: one key, or an array with one key per run.
        resume: state and history of a checkpoint to continue from.
        watch: called after every block with the state and the history so far; ends the run by returning True. Its time
            does not count towards the history's seconds.
        pause_every: blocks end at every multiple of this number of steps, so that `watch` is called there.
        block: number of steps per block; by default chosen such that a block takes about `block_seconds`.
        block_seconds: see `block`.
        feed: for data that are read while training (see `civi.problem.target.feeding`).

    Example:
        >>> import civi, jax
        >>> from civi.update import Samples
        >>> family = civi.Architecture(hidden=(8,)).init(2, jax.random.key(0))
        >>> problem = civi.PosteriorProblem(family, civi.LogDensity(lambda z: -0.5 * (z**2).sum(), 2))
        >>> solver = civi.CompositionalSolver(steps=20, samples=Samples(outer=8, inner=8))
        >>> trained = civi.train(solver, problem, jax.random.key(1))
        >>> trained.message
        'finished 20 steps'
        >>> trained.problem.family.sample(jax.random.key(2), 5).shape
        (5, 2)
    """
    begun = time.perf_counter()
    state, history = resume if resume else (start(solver, problem, key), empty_history())
    length, done = block or 1, int(state.done.max())
    fixed, left = feed(split(problem)[1], done)
    elapsed = float(history["seconds"][-1]) if len(history["seconds"]) else 0.0
    program = run_block if key.ndim == 0 else run_blocks
    compiled = cast(Any, eqx.filter_jit(program)).lower(solver, fixed, state, jnp.asarray(1)).compile()
    ready = time.perf_counter()
    while done < solver.steps and not halted(state).all():
        count = min(length, CAPACITY, solver.steps - done, pause_every - done % pause_every, left)
        clock = time.perf_counter()
        state, rows = jax.block_until_ready(compiled(solver, fixed, state, jnp.asarray(count)))
        seconds = broadcast_scalar(time.perf_counter() - clock)
        before, done = done, int(state.done.max())
        history = _extend(history, rows, before, state.done, elapsed, seconds)
        elapsed += seconds
        length = block or max(1, min(2 * count, round(block_seconds * (done - before) / seconds)))
        if watch and watch(state, history):
            break
        fixed, left = feed(fixed, done)
    times = (elapsed, ready - begun, time.perf_counter() - ready)
    return Trained(eqx.combine(state.output, fixed), state, history, solver.steps, *times)


def halted(state: RunState) -> np.ndarray:
    """Whether a run (or each of several) was stopped after PATIENCE consecutive non-finite steps."""
    return np.asarray(state.skipped_in_a_row >= PATIENCE)


def run_block(solver: Solver, fixed: Any, state: RunState, count: Int[Array, ""]) -> tuple[RunState, Rows]:
    """Run up to `count` steps; end early after PATIENCE consecutive non-finite steps."""
    first = state.done

    def more(carry: tuple[RunState, Array]) -> Array:
        return (carry[0].done - first < count) & (carry[0].skipped_in_a_row < PATIENCE)

    def body(carry: tuple[RunState, Array]) -> tuple[RunState, Array]:
        state, rows = carry
        new, row = guarded_step(solver, fixed, state)
        return new, jax.lax.dynamic_update_index_in_dim(rows, row, state.done - first, 0)

    return replicate(jax.lax.while_loop(more, body, (state, jnp.zeros((CAPACITY, len(COLUMNS))))))


def run_blocks(solver: Solver, fixed: Any, states: RunState, count: Int[Array, ""]) -> tuple[RunState, Rows]:
    """Run a block of every run, in sequence inside one program.

    On a CPU this is faster than vmap, which turns the small matrix products of a step into batched ones.
    """
    return jax.lax.map(lambda state: run_block(solver, fixed, state, count), states)


def run_scan(
    solver: Solver, fixed: Any, state: RunState, measure: Callable[[Any], Any] | None = None
) -> tuple[RunState, Rows, Any]:
    """Run all steps as one scan, which can be transformed (such as by vmap), and record `measure(params)` per step."""

    def body(state: RunState, _: None) -> tuple[RunState, tuple[Array, Any]]:
        new, row = guarded_step(solver, fixed, state)
        return new, (row, measure(new.solver.params) if measure else None)

    last, (rows, measured) = jax.lax.scan(body, state, None, length=solver.steps)
    return last, rows, measured


def guarded_step(solver: Solver, fixed: Any, state: RunState) -> tuple[RunState, Array]:
    """One step of the solver, which is undone if the result is not finite."""
    t = state.done + 1
    key = jax.random.fold_in(state.key, t)
    new, info = solver.step(fixed, state.solver, t, key)
    good = jnp.isfinite(_total((new.params, info))) & ~jnp.isnan(_total(new))
    kept = jax.tree.map(lambda a, b: _where(good, a, b), new, state.solver)
    output = _output(solver, state.output, kept.params, t, jax.random.split(key)[1])
    in_a_row = jnp.where(good, 0, state.skipped_in_a_row + 1)
    return RunState(state.key, t, kept, output, state.skipped + ~good, in_a_row), jnp.stack([*info, ~good])


def _output(solver: Solver, output: Any, params: Any, t: Array, key: PRNGKeyArray) -> Any:
    """last: theta_t. average: mean of the second half of the iterates. uniform: one iterate at random."""
    if solver.output == "average":
        rate = 1 / jnp.maximum(t - solver.steps // 2, 1)
        return jax.tree.map(lambda mean, new: mean + rate * (new - mean), output, params)
    if solver.output == "uniform":
        take = jax.random.uniform(key) < 1 / t
        return jax.tree.map(lambda old, new: jnp.where(take, new, old), output, params)
    return params


def _where(condition: Array, new: Array, old: Array) -> Array:
    return old if _is_key(new) else jnp.where(condition, new, old)


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _total(tree: Any) -> Float[Array, ""]:
    """The sum of all floats, which is not finite if one of them is not; needs only one reduction per leaf."""
    floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([leaf.sum() for leaf in floats]).sum()


def empty_history() -> dict[str, np.ndarray]:
    """A history with no rows."""
    return {name: np.zeros(0) for name in ("step", *COLUMNS, "seconds")}


def _extend(
    history: dict[str, np.ndarray], rows: Rows, before: int, done: Array, elapsed: float, seconds: float
) -> dict[str, np.ndarray]:
    """Append a block's rows (axes: steps, runs); the block's time is divided evenly between its steps."""
    count = int(done.max()) - before
    step = np.arange(before + 1, before + count + 1)
    by_column = np.moveaxis(np.asarray(rows), (-1, -2), (0, 1))[:, :count]
    ran = step.reshape(-1, *[1] * done.ndim) <= np.asarray(done)
    new = dict(zip(COLUMNS, np.where(ran, by_column, np.nan), strict=True))
    new |= {"step": step, "seconds": elapsed + seconds * (step - before) / count}
    grown = {name: [column] if len(column) else [] for name, column in history.items()}
    return {name: np.concatenate([*grown[name], new[name].astype(float)]) for name in history}
