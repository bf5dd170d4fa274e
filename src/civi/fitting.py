"""`civi.fit`: any log density or NumPyro model in one call, without tuning."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from civi.errors import require, unknown
from civi.family import Architecture
from civi.pilot.gaussian import Gaussian, Guess
from civi.posterior import Guesses, Posterior
from civi.solver import SOLVERS, Model, RunState, train
from civi.target.user import batch_size, user_target

STEPS = 3000
EXPLICIT = ("mfvb", "nuts")


def fit(
    target: Callable[..., Any],
    *args: Any,
    key: PRNGKeyArray,
    dim: int | None = None,
    example: Any = None,
    solver: str = "civi",
    steps: int = STEPS,
    seconds: float | int = 60,
    progress: bool = True,
    **kwargs: Any,
) -> Posterior:
    """Fit a semi-implicit posterior.

    `target` is a NumPyro model, with its arguments after it, or a log density of one vector (give `dim`) or of a pytree
    (give an `example` of it). The pilot finds location and scale and the family learns what is left, in `steps` steps
    or until `seconds` have passed.
    """
    begun = time.perf_counter()
    require(steps >= 1, f"steps must be at least 1, not {steps}")
    require(seconds > 0, f"seconds must be positive, not {seconds}")
    if solver not in SOLVERS or solver in EXPLICIT:
        raise unknown("solver for civi.fit", solver, [name for name in SOLVERS if name not in EXPLICIT])
    log_p, constrain = user_target(target, args, kwargs, dim, example)
    batch = batch_size(log_p)
    pilot = Gaussian(batch=batch)
    guesses = pilot.guesses(log_p)
    seen = pilot.settle(log_p, guesses)
    settings = SOLVERS[solver](Architecture.in_frame(noise_dim=max(3, min(log_p.dim, 10))))
    method = replace(settings.solver, steps=steps, samples=replace(settings.solver.samples, batch=batch))
    family_key, train_key, guess_key = jax.random.split(key, 3)
    model = Model.make(settings.family, seen, family_key)
    with _bar(progress, steps) as bar:

        def watch(state: RunState, history: dict[str, np.ndarray]) -> bool:
            bar.update(int(state.done), float(history["neg_elbo"][-20:].mean()))
            return time.perf_counter() - begun > seconds

        trained = train(method, model, train_key, watch=watch)
    out_of_time = int(trained.state.done) < steps and trained.status == "finished"
    converged = not out_of_time and trained.status == "finished" and _settled(trained.history["neg_elbo"])
    message = f"stopped after {seconds:g} seconds at step {int(trained.state.done)}" if out_of_time else trained.message
    return Posterior(
        trained.model.family,
        seen,
        constrain,
        _draws_of(guesses, guess_key),
        trained.history,
        converged,
        message,
        time.perf_counter() - begun,
    )


def _settled(neg_elbo: np.ndarray) -> bool:
    """Whether the last tenth is no better than the tenth before the one before it, beyond noise."""
    tenth = max(1, len(neg_elbo) // 10)
    earlier, last = neg_elbo[-3 * tenth : -2 * tenth], neg_elbo[-tenth:]
    noise = np.sqrt((earlier.var() + last.var()) / tenth)
    return bool(earlier.mean() - last.mean() < max(0.05, 3 * noise))


def _draws_of(guesses: list[Guess], key: PRNGKeyArray, count: int = 50) -> Guesses:
    """Where else the posterior may be."""
    finite = [guess for guess in guesses if np.isfinite(guess.elbo)]
    noise = np.asarray(jax.random.normal(key, (len(finite), count, len(finite[0].location))))
    draws = [guess.location + noise[i] @ guess.factor.T for i, guess in enumerate(finite)]
    return Guesses(np.stack(draws).astype(np.float32), np.array([guess.elbo for guess in finite], np.float64))


def _bar(progress: bool, steps: int) -> Any:
    from civi.report.progress import TrainingBar, console

    made = console(stderr=True)
    made.quiet = not progress
    return TrainingBar(made, "fit", steps)
