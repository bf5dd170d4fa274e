"""`civi.fit`: fit any log density or NumPyro model in one call, without tuning."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from civi.inference.arguments import as_key, check_count, check_positive
from civi.inference.diagnose.spread import r_hat
from civi.inference.pilot.base import Guesses
from civi.inference.pilot.gaussian import Gaussian, Guess
from civi.inference.pilot.proper import check_proper
from civi.inference.posterior import SemiImplicitPosterior
from civi.inference.recipe import check_solver, fit_settings
from civi.inference.restarts import train_runs
from civi.problem.target import Target
from civi.problem.target.user import batch_size, user_target
from civi.progress import TrainingBar, console

RUNS, SPREAD_DRAWS, RESERVE = 2, 2000, 0.95


def fit(
    target: Callable[..., Any],
    *args: Any,
    key: Any,
    dim: int | None = None,
    example: Any = None,
    solver: str = "civi",
    steps: int | None = None,
    seconds: float | int = 60,
    runs: int = RUNS,
    progress: bool = True,
    **kwargs: Any,
) -> SemiImplicitPosterior:
    """Fit a semi-implicit posterior.

    A pilot finds the location and scale of the posterior, and a semi-implicit family is then trained in the frame of
    the pilot. There are several independent runs, and the one with the highest ELBO is kept. Training ends when the
    ELBO stops improving, after `steps` steps, or in time for the whole fit to take at most `seconds`.

    Args:
        target: a NumPyro model, or a log density of one vector (give `dim`) or of a pytree (give `example`).
        *args: further arguments of the model or log density.
        key: random key, or a whole number as its seed.
        dim: dimension of the vector that the log density takes.
        example: a pytree of the structure and shapes that the log density takes.
        solver: name of the solver; `civi solvers` lists them.
        steps: maximum number of training steps per run (10,000 by default).
        seconds: time limit of the whole fit.
        runs: number of independent runs; with one run, R-hat between runs cannot be checked.
        progress: whether to show a progress bar.
        **kwargs: further keyword arguments of the model or log density.

    Returns:
        The fitted posterior. Call `diagnose(key)` on it to see how far it can be trusted.
    """
    begun = time.perf_counter()
    key = as_key(key)
    for name, value in {"dim": dim, "steps": steps, "runs": runs}.items():
        if value is not None:
            check_count(name, value)
    check_positive("seconds", seconds)
    check_solver(solver)
    log_p, constrain = user_target(target, args, kwargs, dim, example)
    settings = fit_settings(solver, log_p.dim, steps, batch_size(log_p))
    pilot: Any = settings.pilot
    guesses = pilot.guesses(log_p)
    check_proper(replace(pilot, steps=0).settle(log_p, guesses), constrain)
    framed = pilot.settle(log_p, guesses)
    with _bar(progress, settings.solver.steps) as bar:
        deadline = begun + RESERVE * seconds
        trained = train_runs(settings, framed, key, runs, deadline, bar.update)
    family, history = trained.best()
    draws = trained.sample(SPREAD_DRAWS)
    return SemiImplicitPosterior(
        family=family,
        target=framed,
        constrain=constrain,
        guesses=_draws_of(guesses),
        history=history,
        converged=trained.converged,
        message=trained.message,
        seconds=time.perf_counter() - begun,
        r_hat=r_hat(draws),
    )


def guesses_of(target: Target) -> Guesses:
    """Draws and ELBOs of the Gaussians that the pilot finds from each of its starts."""
    return _draws_of(Gaussian().guesses(target))


def _draws_of(guesses: list[Guess], count: int = 50) -> Guesses:
    """`count` draws of each Gaussian with a finite ELBO: regions where the posterior may have mass."""
    finite = [guess for guess in guesses if np.isfinite(guess.elbo)]
    noise = np.random.default_rng(0).normal(size=(len(finite), count, len(finite[0].location)))
    draws = [guess.location + noise[i] @ guess.factor.T for i, guess in enumerate(finite)]
    return Guesses(np.stack(draws).astype(np.float32), np.array([guess.elbo for guess in finite], np.float64))


def _bar(progress: bool, steps: int) -> TrainingBar:
    made = console(stderr=True)
    made.quiet = not progress
    return TrainingBar(made, "fit", steps)
