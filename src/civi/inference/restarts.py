"""Independent runs of one fit, side by side in threads that call the same compiled program.

A run ends by its own rule, never by the clock unless a deadline is given, so its result does not depend on how busy the
machine is. The learning rate is held constant until the ELBO stops improving, and then decays to 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from civi.family import Architecture, SemiImplicit
from civi.inference.pilot.modes import ModalArchitecture
from civi.inference.programs import call, prepare, shapes_of, side_by_side
from civi.inference.seeds import Words, as_key, derived
from civi.parts import split
from civi.problem import PosteriorProblem
from civi.problem.control import FEW
from civi.problem.flat import FlatProblem
from civi.problem.target import Framed
from civi.problem.target.base import work_of
from civi.problem.target.feeding import Feeding, feeding, log_offset, with_window
from civi.problem.target.program import on_device
from civi.solver.base import Solver
from civi.solver.loop import COLUMNS, PATIENCE, RunState, begin, run_block
from civi.update import FirstOrder
from civi.update.hold import decaying

CHECK_EVERY, FIRST_CHECK, LATEST_FIRST_CHECK = 125, 500, 2000
GAIN, GAIN_PER_DIMENSION, CONVERGED_PER_DIMENSION = 0.01, 0.00025, 0.0005
SHORTEST_DECAY = 250
HELD_SHARE_OF_TIME = 0.5
SMALL, QUICKLY_EVALUATED = 20, 5000


@dataclass(frozen=True)
class Run:
    """The result of one run.

    Attributes:
        family: the trained family.
        target: the target in its trained frame.
        history: the training history by column.
        converged: whether the ELBO had stopped improving.
        message: how training ended.
        stalled: the step after which the ELBO had stopped improving; 0 if it had not.
    """

    family: SemiImplicit
    target: Framed
    history: dict[str, np.ndarray]
    converged: bool
    message: str
    stalled: int = 0

    @property
    def neg_elbo(self) -> float:
        """Mean of neg_elbo over the last tenth of the steps; infinity if it is not finite."""
        last = self.history["neg_elbo"][-max(1, len(self.history["step"]) // 10) :]
        return float(np.nan_to_num(last.mean(), nan=np.inf)) if len(last) else float("inf")


Show = Callable[[int, float], None]


class Training(NamedTuple):
    """What a run trains.

    Attributes:
        solver: the solver.
        architecture: makes the family.
        framed: the target, in the frame of the pilot.
        batch: number of rows of data per step; None uses all.
    """

    solver: Solver
    architecture: Architecture | ModalArchitecture
    framed: Framed
    batch: int | None

    @property
    def lasts(self) -> bool:
        """Whether training takes longer than the optimisations of its program."""
        return self.framed.dim > SMALL or work_of(self.framed) > QUICKLY_EVALUATED or self.batch is not None


def train_runs(training: Training, words: Words, runs: int, deadline: float, show: Show) -> list[Run]:
    """Train independent runs of at most solver.steps steps each.

    Args:
        training: what they train.
        words: the seed.
        runs: number of runs.
        deadline: when they must end, as a value of time.perf_counter(); infinity for no limit.
        show: called with the number of steps done and the recent neg_elbo.
    """
    stop = threading.Event()
    task = partial(train_run, training, deadline=deadline, stop=stop, show=show)
    return side_by_side([partial(task, derived(words, run)) for run in range(runs)], stop)


def prepare_training(training: Training, unless: threading.Event) -> None:
    """Compile the program of the runs; arrays may be given by their shapes.

    Args:
        training: what they train.
        unless: set if the program turns out not to be needed, which is checked before the longest part of the work.
    """
    prepare(_block, *training, *_start(training), lasting=training.lasts, unless=unless)


def train_run(training: Training, words: Words, *, deadline: float, stop: threading.Event, show: Show) -> Run:
    """Train one run.

    In at most the first half of the steps the learning rate is held constant. It is held until the ELBO of the last
    third of these steps is no better than that of the third before, then it decays over half as many steps. A method
    with another schedule keeps it, and does all its steps.
    """
    with feeding(training.framed, int(words[0]), training.batch) as feed:
        return _train_run(training, words, feed, deadline, stop, show)


def _train_run(
    training: Training, words: Words, feed: Feeding, deadline: float, stop: threading.Event, show: Show
) -> Run:
    words, offset = np.asarray(words, np.uint32), log_offset(training.framed)
    plan = Schedule.of(training.solver, training.framed.dim, time.perf_counter(), deadline)
    training, left = _fed(training, feed, 0)
    _, state, _ = _start(training)
    rows: list[np.ndarray] = []
    begun, clock = time.perf_counter(), []
    while plan.done < plan.end and not _halted(state):
        count = min(CHECK_EVERY - plan.done % CHECK_EVERY, plan.end - plan.done, left)
        state, block = call(_block, *training, words, state, np.int32(count), lasting=training.lasts)
        rows.append(np.asarray(block)[: int(state.done) - plan.done])
        clock.append(time.perf_counter() - begun)
        plan.done = int(state.done)
        neg_elbo = np.concatenate(rows)[:, 0]
        show(plan.done, float(neg_elbo[-20:].mean()) - offset)
        training, left = _fed(training, feed, plan.done)
        if stop.is_set() or time.perf_counter() > deadline:
            plan.cut = plan.done < plan.end
            break
        if plan.decay_begins(neg_elbo):
            optimiser = decaying(state.solver.optimiser, plan.done, plan.end - plan.done)
            state = state._replace(solver=state.solver._replace(optimiser=optimiser))
    halted = _halted(state)
    history = _history(rows, clock)
    history["neg_elbo"] -= offset
    converged = plan.stalled and not (plan.cut or halted)
    stalled = plan.held if plan.stalled else 0
    return Run(*_trained(training, state), history, converged, plan.message(halted), stalled)


@dataclass
class Schedule:
    """How far a run is.

    Attributes:
        end: the step at which it ends, if nothing changes.
        half: the last step with a constant learning rate.
        holds: whether the learning rate is constant until nothing is gained.
        decay_at: the time at which it decays at the latest.
        first_check: the step of the first check.
        gain: training goes on while a third of the steps gains more than this, in nats.
        converged: a run that reaches `half` has converged if the last third has gained no more than this.
        done: number of steps so far.
        held: the step at which the learning rate began to decay; 0 before.
        stalled: whether the ELBO had stopped improving then.
        cut: whether time ran out.
    """

    end: int
    half: int
    holds: bool
    decay_at: float
    first_check: int
    gain: float
    converged: float
    done: int = 0
    held: int = 0
    stalled: bool = False
    cut: bool = False

    @classmethod
    def of(cls, solver: Any, dim: int, now: float, deadline: float) -> Schedule:
        """Before the first step. In many dimensions the control variate of the frame allows an earlier first check."""
        holds = isinstance(solver.update, FirstOrder) and solver.update.decay == "hold"
        many = min(LATEST_FIRST_CHECK, FIRST_CHECK // 2 + 3 * (dim - FEW))
        first_check = FIRST_CHECK if dim <= FEW else many
        decay_at = now + HELD_SHARE_OF_TIME * (deadline - now)
        gain, converged = max(GAIN, GAIN_PER_DIMENSION * dim), max(GAIN, CONVERGED_PER_DIMENSION * dim)
        return cls(solver.steps, solver.steps // 2, holds, decay_at, first_check, gain, converged)

    def decay_begins(self, neg_elbo: np.ndarray) -> bool:
        """Whether the learning rate begins to decay now."""
        if not self.holds or self.held:
            return False
        is_check, is_last = self.done >= self.first_check and self.done % CHECK_EVERY == 0, self.done >= self.half
        self.stalled = is_check and not improved(neg_elbo, self.converged if is_last else self.gain)
        late = time.perf_counter() > self.decay_at
        if not (self.stalled or late or is_last):
            return False
        self.held, self.cut = self.done, late and not self.stalled
        self.end = min(self.end, self.done + max(min(SHORTEST_DECAY, self.half), self.done // 2))
        return True

    def message(self, halted: bool) -> str:
        """How training ended."""
        if halted:
            return f"stopped at step {self.done}: gradients or values were no longer finite"
        if self.cut:
            return f"out of time after {self.done} steps"
        if self.stalled:
            return f"the ELBO stopped improving after {self.held} steps; finished after {self.done} steps"
        return f"finished {self.done} steps" + ("; the ELBO was still improving" if self.holds else "")


def improved(neg_elbo: np.ndarray, least: float) -> bool:
    """Whether the last third of the steps has a lower mean neg_elbo than the third before it.

    The difference must exceed `least` plus one standard error. The standard error is computed from means of 20
    consecutive steps, because single steps are correlated.

    Args:
        neg_elbo: the history of neg_elbo.
        least: the smallest improvement that counts, in nats.
    """
    third = len(neg_elbo) // 3
    before, last = (_means(part) for part in (neg_elbo[-2 * third : -third], neg_elbo[-third:]))
    noise = np.sqrt((before.var() + last.var()) / len(last))
    return bool(before.mean() - last.mean() > least + noise)


def _means(values: np.ndarray, size: int = 20) -> np.ndarray:
    """Means over parts of about `size` consecutive steps."""
    return np.stack([part.mean() for part in np.array_split(values, max(1, len(values) // size))])


def _fed(training: Training, feed: Feeding, done: int) -> tuple[Training, int]:
    """The training with the data of the next steps, and the number of steps that these data serve."""
    framed, left = feed(training.framed, done)
    return training._replace(framed=framed), left


def _start(training: Training) -> tuple[Any, RunState, Any]:
    """The seed, the state and the number of steps of the first block; the program itself fills in the state."""
    shapes = shapes_of(_fresh, *training, jax.ShapeDtypeStruct((4,), jnp.uint32))[1]
    state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes_of(_plain, shapes))
    return np.zeros(4, np.uint32), state, np.int32(0)


def _fresh(
    solver: Solver, architecture: Architecture | ModalArchitecture, framed: Framed, batch: int | None, words: Array
) -> tuple[FlatProblem, RunState]:
    """The problem and the state before the first step."""
    family_key, init_key, run_key = jax.random.split(as_key(words), 3)
    problem = FlatProblem.of(PosteriorProblem(architecture.init(framed.dim, family_key), framed, batch))
    return problem, begin(solver, problem, init_key, run_key)


def _block(
    solver: Solver,
    architecture: Architecture | ModalArchitecture,
    framed: Framed,
    batch: int | None,
    words: Array,
    state: RunState,
    count: Int[Array, ""],
) -> tuple[RunState, Array]:
    """Up to `count` steps; before the first step, the state is made from the seed."""
    problem, fresh = _fresh(solver, architecture, framed, batch, words)
    state = jax.tree.map(lambda new, old: jnp.where(state.done == 0, new, old), _plain(fresh), state)
    keyed = jax.tree.map(lambda leaf, like: as_key(leaf) if _is_key(like) else leaf, state, fresh)
    state, rows = run_block(solver, split(problem)[1], keyed, count)
    return _plain(state), rows


def _plain(state: RunState) -> RunState:
    """The state with random keys as plain numbers."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, state)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _halted(state: RunState) -> bool:
    return int(state.skipped_in_a_row) >= PATIENCE


def _trained(training: Training, state: RunState) -> tuple[SemiImplicit, Framed]:
    """The family and the frame with their trained arrays, without compiling anything."""
    words = jax.ShapeDtypeStruct((4,), jnp.uint32)
    problem, _ = shapes_of(_fresh, *training, words)
    params = problem.shapes(np.asarray(state.output.theta))
    family = eqx.combine(jax.tree.map(on_device, params.family), problem.fixed.family)
    return family, with_window(training.framed.with_trained(params.target.frame))


def no_history() -> dict[str, np.ndarray]:
    """The history of a run without steps."""
    return _history([], [])


def _history(rows: list[np.ndarray], clock: list[float]) -> dict[str, np.ndarray]:
    """The history by column; the time of a block is divided evenly between its steps."""
    counts = [len(block) for block in rows]
    steps = np.arange(1.0, sum(counts) + 1)
    table = np.concatenate(rows).astype(float) if rows else np.zeros((0, len(COLUMNS)))
    seconds = np.interp(steps, [0, *np.cumsum(counts)], [0, *clock])
    return {"step": steps, **dict(zip(COLUMNS, table.T, strict=True)), "seconds": seconds}
