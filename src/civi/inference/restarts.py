"""Independent runs as one program: the learning rate is held until nothing more is gained, then it falls to 0."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Key

from civi.family import Architecture, SemiImplicit
from civi.inference.settings import Settings
from civi.problem import PosteriorProblem
from civi.problem.target import Target
from civi.solver.loop import RunState, Trained, halted, train
from civi.update import FirstOrder

LOOK, FIRST_LOOK, FEWEST = 250, 2500, 60
GAIN, SETTLED = 0.002, 0.05
Show = Callable[[int, float], None]


@dataclass(frozen=True)
class RestartResult:
    """Families with stacked leaves, the history (step, run), each run's neg_elbo at the end, and how it ended."""

    families: SemiImplicit
    history: dict[str, np.ndarray]
    neg_elbo: np.ndarray
    converged: bool
    message: str

    def best(self) -> tuple[SemiImplicit, dict[str, np.ndarray]]:
        """The run of lowest neg_elbo."""
        index = int(np.argmin(self.neg_elbo))
        family = jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, self.families)
        return family, {name: column if column.ndim == 1 else column[:, index] for name, column in self.history.items()}

    def sample(self, count: int) -> np.ndarray:
        """Draws of every run (run, draw, dim), from the same noise."""
        key = jax.random.key(0, impl="rbg")
        return np.asarray(eqx.filter_jit(eqx.filter_vmap(lambda family: family.sample(key, count)))(self.families))


def train_runs(
    settings: Settings, target: Target, key: Key[Array, ""], runs: int, deadline: float, show: Show
) -> RestartResult:
    """RestartResult of at most settings.solver.steps steps each, done by `deadline` (time.perf_counter()).

    The first half of the steps holds_rate the learning rate. It ends early when no run has gained anything lately, or when
    half of the time is over; the second half then takes as many steps as the first did. A method with a schedule of its
    own keeps it, and only stops at the deadline.
    """
    method = settings.solver
    families, keys = _families(settings.family, target.dim, key, runs)
    problem, half = PosteriorProblem(families, target, settings.problem.batch), method.steps // 2
    holds_rate = isinstance(method.update, FirstOrder) and method.update.decay == "hold"
    clock: list[float] = []
    decay_reason = ""

    def watch_held_phase(state: RunState, history: dict[str, np.ndarray]) -> bool:
        nonlocal decay_reason
        done, now = int(state.done.max()), time.perf_counter()
        clock.append(now)
        show(done, _recent_mean(history["neg_elbo"], 20).min())
        if done >= half or not holds_rate:
            return now > deadline
        looks = done >= FIRST_LOOK and done % LOOK == 0
        stalled = looks and not gained(history["neg_elbo"], GAIN)
        decay_reason = "stalled" if stalled else "time" if now - clock[0] > 0.47 * (deadline - clock[0]) else ""
        return bool(decay_reason)

    def watch_decay_phase(state: RunState, history: dict[str, np.ndarray]) -> bool:
        show(int(state.done.max()), _recent_mean(history["neg_elbo"], 20).min())
        return time.perf_counter() > deadline

    trained = train(method, problem, keys, watch=watch_held_phase, pause_every=LOOK)
    held = min(int(trained.state.done.max()), half)
    settled = held >= FEWEST and not gained(trained.history["neg_elbo"][:held], SETTLED)
    if decay_reason:
        resume = (_skip_to(trained.state, method.steps - held), trained.history)
        trained = train(method, problem, keys, resume=resume, watch=watch_decay_phase)
    return _result(method, trained, settled, decay_reason, held)


def gained(neg_elbo: np.ndarray, least: float) -> bool:
    """Whether the last third of any run (step, run) is better than the third before it, by `least` and beyond noise.

    Noise is the standard error of the difference, from means of 20 steps, which hide that steps are correlated.
    """
    third = len(neg_elbo) // 3
    before, last = (_means(part) for part in (neg_elbo[-2 * third : -third], neg_elbo[-third:]))
    noise = np.sqrt((before.var(0) + last.var(0)) / len(last))
    return bool((before.mean(0) - last.mean(0) > least + noise).any())


def _means(values: np.ndarray, size: int = 20) -> np.ndarray:
    parts = max(1, len(values) // size)
    return np.stack([part.mean(0) for part in np.array_split(values, parts)])


def _recent_mean(neg_elbo: np.ndarray, steps: int) -> np.ndarray:
    return np.nan_to_num(neg_elbo[-steps:].mean(0), nan=np.inf)


def _skip_to(state: RunState, done: int) -> RunState:
    """The same runs as after `done` steps, so that the learning rate is that of the schedule there."""
    going = ~halted(state)
    counts = jnp.full_like(state.done, done)
    optimiser = optax.tree.set(state.solver.optimiser, count=counts)
    moved = state._replace(done=jnp.where(going, counts, state.done))
    return moved._replace(solver=state.solver._replace(optimiser=optimiser))


def _result(method: Any, trained: Trained, settled: bool, decay_reason: str, held: int) -> RestartResult:
    history = trained.history | {"step": np.arange(1.0, len(trained.history["step"]) + 1)}
    neg_elbo = _recent_mean(history["neg_elbo"], max(1, len(history["step"]) // 10))
    done, ended = len(history["step"]), int(trained.state.done.max()) == method.steps
    if halted(trained.state).all():
        message = f"stopped at step {done}: no step was finite any more"
    elif not ended or decay_reason == "time":
        message = f"out of time after {done} steps"
    elif decay_reason == "stalled":
        message = f"nothing more was gained after {held} steps; finished after {done}"
    else:
        message = f"finished {done} steps" + ("" if settled else ", and was still gaining")
    converged = bool(ended and settled and np.isfinite(neg_elbo).any())
    return RestartResult(trained.problem.family, history, neg_elbo, converged, message)


def _families(family: Architecture, dim: int, key: Key[Array, ""], runs: int) -> tuple[SemiImplicit, Array]:
    """Random numbers by `rbg`, whose programs compile in half the time of the default's."""
    quick = jax.random.wrap_key_data(jax.random.bits(key, (4,), "uint32"), impl="rbg")
    family_keys, train_keys = jax.random.split(quick, (2, runs))
    families = [family.init(dim, family_key) for family_key in family_keys]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *families)
    return stacked, train_keys
