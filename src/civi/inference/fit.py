"""`civi.fit`: any log density or NumPyro model in one call, without tuning."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from civi.errors import require, unknown
from civi.family import Architecture
from civi.inference.diagnose.spread import r_hat
from civi.inference.pilot.gaussian import Gaussian, Guess
from civi.inference.pilot.proper import check_proper
from civi.inference.posterior import Guesses, Posterior
from civi.inference.restarts import train_runs
from civi.problem.target import Target
from civi.problem.target.user import batch_size, user_target
from civi.solver import SOLVERS
from civi.update import FirstOrder, Samples

STEPS, RUNS = 10_000, 2
EXPLICIT = ("mfvb", "nuts")
UPDATE = FirstOrder(learning_rate=3e-3, decay="hold", clip=10.0)
SPREAD_DRAWS, RESERVE = 2000, 0.95


def fit(
    target: Callable[..., Any],
    *args: Any,
    key: PRNGKeyArray,
    dim: int | None = None,
    example: Any = None,
    solver: str = "civi",
    steps: int | None = None,
    seconds: float | int = 60,
    runs: int = RUNS,
    progress: bool = True,
    **kwargs: Any,
) -> Posterior:
    """Fit a semi-implicit posterior.

    `target` is a NumPyro model, with its arguments after it, or a log density of one vector (give `dim`) or of a pytree
    (give an `example` of it). The pilot finds location and scale and the family learns what is left, in `runs`
    independent runs of which the best is kept. They end when nothing more is gained, after `steps` steps (10,000) or
    in time for all to be over within `seconds`.
    """
    begun = time.perf_counter()
    require(steps is None or steps >= 1, f"steps must be at least 1, not {steps}")
    require(seconds > 0, f"seconds must be positive, not {seconds}")
    require(runs >= 1, f"runs must be at least 1, not {runs}")
    if solver not in SOLVERS or solver in EXPLICIT:
        raise unknown("solver for civi.fit", solver, [name for name in SOLVERS if name not in EXPLICIT])
    log_p, constrain = user_target(target, args, kwargs, dim, example)
    batch = batch_size(log_p)
    pilot = Gaussian(batch=batch)
    guesses = pilot.guesses(log_p)
    check_proper(replace(pilot, steps=0).settle(log_p, guesses), getattr(log_p, "unravel", constrain))
    seen = pilot.settle(log_p, guesses)
    settings = SOLVERS[solver](Architecture.in_frame(noise_dim=max(3, min(log_p.dim, 10))))
    method = _for_fit(settings.solver, log_p.dim, steps or STEPS, batch)
    with _bar(progress, method.steps) as bar:
        deadline = begun + RESERVE * seconds
        trained = train_runs(method, settings.family, seen, key, runs, deadline, bar.update)
    family, history = trained.best()
    draws = trained.sample(SPREAD_DRAWS)
    return Posterior(
        family,
        seen,
        constrain,
        _draws_of(guesses),
        history,
        trained.converged,
        trained.message,
        time.perf_counter() - begun,
        r_hat(draws),
    )


def _for_fit(solver: Any, dim: int, steps: int, batch: int) -> Any:
    """The solver with as many steps; what it leaves at the defaults is chosen for a target in a frame.

    Inner samples: 300 in up to 3 dimensions, 100 in 10 to 50, then fewer, so that a step costs no more.
    """
    inner = max(25, min(300, max(100, 1000 // dim), 5000 // dim))
    samples = Samples(inner=inner) if solver.samples == Samples() else solver.samples
    update = UPDATE if solver.update == FirstOrder() else solver.update
    return replace(solver, steps=steps, samples=replace(samples, batch=batch), update=update)


def guesses_of(target: Target) -> Guesses:
    """What the pilot finds from each of its starts."""
    return _draws_of(Gaussian().guesses(target))


def _draws_of(guesses: list[Guess], count: int = 50) -> Guesses:
    """Where else the posterior may be."""
    finite = [guess for guess in guesses if np.isfinite(guess.elbo)]
    noise = np.random.default_rng(0).normal(size=(len(finite), count, len(finite[0].location)))
    draws = [guess.location + noise[i] @ guess.factor.T for i, guess in enumerate(finite)]
    return Guesses(np.stack(draws).astype(np.float32), np.array([guess.elbo for guess in finite], np.float64))


def _bar(progress: bool, steps: int) -> Any:
    from civi.experiment.report.progress import TrainingBar, console

    made = console(stderr=True)
    made.quiet = not progress
    return TrainingBar(made, "fit", steps)
