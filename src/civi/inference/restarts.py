"""Independent runs trained as one program, with a constant learning rate that decays to 0 once they stop improving."""

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

CHECK_EVERY, FIRST_CHECK, FEWEST_STEPS = 250, 2500, 60
GAIN, SETTLED_GAIN = 0.002, 0.05
Show = Callable[[int, float], None]


@dataclass(frozen=True)
class RestartResult:
    """The result of independent runs.

    Attributes:
        families: the trained families of all runs, with stacked leaves.
        history: the training history, with columns of shape (step, run).
        neg_elbo: mean of neg_elbo over the last tenth of the steps, per run.
        converged: whether training had converged.
        message: how training ended.
    """

    families: SemiImplicit
    history: dict[str, np.ndarray]
    neg_elbo: np.ndarray
    converged: bool
    message: str

    def best(self) -> tuple[SemiImplicit, dict[str, np.ndarray]]:
        """The family and the history of the run with the lowest neg_elbo."""
        index = int(np.argmin(self.neg_elbo))
        family = jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, self.families)
        return family, {name: column if column.ndim == 1 else column[:, index] for name, column in self.history.items()}

    def sample(self, count: int) -> np.ndarray:
        """`count` draws of every run from the same noise, of shape (run, count, dim)."""
        key = jax.random.key(0, impl="rbg")
        return np.asarray(eqx.filter_jit(eqx.filter_vmap(lambda family: family.sample(key, count)))(self.families))


def train_runs(
    settings: Settings, target: Target, key: Key[Array, ""], runs: int, deadline: float, show: Show
) -> RestartResult:
    """Train independent runs of at most settings.solver.steps steps each.

    In the first half of the steps (the held phase) the learning rate is constant; in the second half (the decay phase)
    it decays to 0. The held phase ends early if no run is improving any more, or if about half of the time has passed.
    The decay phase then takes as many steps as the held phase did. A method with another schedule keeps it, and is only
    stopped by the deadline.

    Args:
        settings: the settings of the fit.
        target: the target, in the frame of the pilot.
        key: random key.
        runs: number of runs.
        deadline: when training must end, as a value of time.perf_counter().
        show: called with the number of steps done and the lowest recent neg_elbo.
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
        is_check = done >= FIRST_CHECK and done % CHECK_EVERY == 0
        stalled = is_check and not improved(history["neg_elbo"], GAIN)
        decay_reason = "stalled" if stalled else "time" if now - clock[0] > 0.47 * (deadline - clock[0]) else ""
        return bool(decay_reason)

    def watch_decay_phase(state: RunState, history: dict[str, np.ndarray]) -> bool:
        show(int(state.done.max()), _recent_mean(history["neg_elbo"], 20).min())
        return time.perf_counter() > deadline

    trained = train(method, problem, keys, watch=watch_held_phase, pause_every=CHECK_EVERY)
    held = min(int(trained.state.done.max()), half)
    settled = held >= FEWEST_STEPS and not improved(trained.history["neg_elbo"][:held], SETTLED_GAIN)
    if decay_reason:
        resume = (_skip_to(trained.state, method.steps - held), trained.history)
        trained = train(method, problem, keys, resume=resume, watch=watch_decay_phase)
    return _result(method, trained, settled, decay_reason, held)


def improved(neg_elbo: np.ndarray, least: float) -> bool:
    """Whether in any run the last third of the steps has a lower mean neg_elbo than the third before it.

    The difference must exceed `least` plus one standard error. The standard error is computed from means of 20
    consecutive steps, because single steps are correlated.

    Args:
        neg_elbo: the history of neg_elbo, of shape (step, run).
        least: the smallest improvement that counts, in nats.
    """
    third = len(neg_elbo) // 3
    before, last = (_means(part) for part in (neg_elbo[-2 * third : -third], neg_elbo[-third:]))
    noise = np.sqrt((before.var(0) + last.var(0)) / len(last))
    return bool((before.mean(0) - last.mean(0) > least + noise).any())


def _means(values: np.ndarray, size: int = 20) -> np.ndarray:
    """Means over parts of about `size` consecutive steps."""
    parts = max(1, len(values) // size)
    return np.stack([part.mean(0) for part in np.array_split(values, parts)])


def _recent_mean(neg_elbo: np.ndarray, steps: int) -> np.ndarray:
    """The mean over the last steps, per run; infinity if it is NaN."""
    return np.nan_to_num(neg_elbo[-steps:].mean(0), nan=np.inf)


def _skip_to(state: RunState, done: int) -> RunState:
    """Continue the schedule of the learning rate as after `done` steps. Halted runs keep their own step count."""
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
        message = f"stopped at step {done}: gradients or values were no longer finite"
    elif not ended or decay_reason == "time":
        message = f"out of time after {done} steps"
    elif decay_reason == "stalled":
        message = f"the ELBO stopped improving after {held} steps; finished after {done} steps"
    else:
        message = f"finished {done} steps" + ("" if settled else "; the ELBO was still improving")
    converged = bool(ended and settled and np.isfinite(neg_elbo).any())
    return RestartResult(trained.problem.family, history, neg_elbo, converged, message)


def _families(family: Architecture, dim: int, key: Key[Array, ""], runs: int) -> tuple[SemiImplicit, Array]:
    """Freshly initialised families with stacked leaves, and one training key per run.

    The keys use the `rbg` generator, because its programs compile in half the time of the default generator's.
    """
    quick = jax.random.wrap_key_data(jax.random.bits(key, (4,), "uint32"), impl="rbg")
    family_keys, train_keys = jax.random.split(quick, (2, runs))
    families = [family.init(dim, family_key) for family_key in family_keys]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *families)
    return stacked, train_keys
