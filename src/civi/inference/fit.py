"""`civi.fit`: fit any log density or NumPyro model in one call, without tuning."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from civi.errors import TargetError
from civi.family import Architecture
from civi.inference.arguments import as_words, check_count, check_positive
from civi.inference.diagnose.spread import r_hat
from civi.inference.draws import draw, prepare_draws
from civi.inference.pilot.base import Guesses
from civi.inference.pilot.gaussian import Found, Guess, Search
from civi.inference.pilot.modes import ModalArchitecture
from civi.inference.pilot.proper import check_proper
from civi.inference.posterior import SemiImplicitPosterior
from civi.inference.programs import one_blas_thread, return_memory
from civi.inference.recipe import PILOT_ROWS, check_solver, fit_settings
from civi.inference.restarts import GAIN, Training, prepare_training, train_runs
from civi.inference.run_curve import Clock, curve_of
from civi.inference.seeds import Words, derived
from civi.inference.selection import best_of, gaussian_run
from civi.inference.settings import Settings
from civi.problem.target import Target
from civi.problem.target.not_finite import why_not_finite
from civi.problem.target.numpyro_model import with_batch
from civi.problem.target.streamed_model import StreamedModel
from civi.problem.target.user import batch_size, user_target
from civi.progress import TrainingBar, screen_of, showing

RUNS, SPREAD_DRAWS, RESERVE = 2, 2000, 0.95
PILOT, TRAINING, EVALUATION = range(3)


def fit(
    target: Callable[..., Any],
    *args: Any,
    key: Any,
    dim: int | None = None,
    example: Any = None,
    solver: str = "civi",
    steps: int | None = None,
    seconds: float | int | None = None,
    runs: int = RUNS,
    reparam: bool = True,
    progress: bool = True,
    **kwargs: Any,
) -> SemiImplicitPosterior:
    """Fit a semi-implicit posterior.

    A pilot finds the Gaussian with the highest ELBO. A semi-implicit family that starts as this Gaussian is then
    trained, in several independent runs, and the one with the highest ELBO is kept. If the Gaussian of the pilot has a
    higher ELBO than the best run, it is returned instead. If its KL divergence to the posterior is at most 0.01, there
    is nothing to learn, and nothing is trained unless `steps` is given. Training ends when the ELBO stops improving, or
    after `steps` steps. The result depends on the key and the arguments only, and not on how fast or busy the machine
    is, unless `seconds` is given. A fit that has not converged gives a warning.

    Args:
        target: a NumPyro model, or a log density of one vector (give `dim`) or of a pytree (give `example`).
        *args: further arguments of the model or log density.
        key: random key, or a whole number as its seed.
        dim: dimension of the vector that the log density takes.
        example: a pytree of the structure and shapes that the log density takes.
        solver: name of the solver; `civi solvers` lists them.
        steps: maximum number of training steps per run (6,000 by default). If it is given, a fit always trains.
        seconds: time limit of the whole fit; none by default.
        runs: number of independent runs; with one run, R-hat between runs cannot be checked.
        reparam: whether hierarchical sites of a NumPyro model may be made non-centred. The posterior is the same, and
            draws have the model's own names; `posterior.centring` says what was chosen.
        progress: whether to show a progress bar.
        **kwargs: further keyword arguments of the model or log density.

    Returns:
        The fitted posterior. Call `diagnose(key)` on it to see how far it can be trusted.

    Example:
        >>> import civi, jax.numpy as jnp
        >>> posterior = civi.fit(lambda z: -0.5 * (z**2).sum(), dim=2, key=0, runs=1, progress=False)
        >>> posterior.sample(1, 1000).shape
        (1000, 2)
        >>> posterior.diagnose(2).verdict
        'good'
    """
    clock = Clock()
    words = as_words(key)
    for name, value in {"dim": dim, "steps": steps, "runs": runs}.items():
        if value is not None:
            check_count(name, value)
    if seconds is not None:
        check_positive("seconds", seconds)
    check_solver(solver)
    space: Any
    screen = screen_of(progress)
    with showing(screen, "fit: reading the model"):
        log_p, space = user_target(target, args, kwargs, dim, example, reparam=reparam)
    batch = batch_size(log_p)
    shapes = log_p
    if isinstance(log_p, StreamedModel):
        shapes = log_p.with_window_shapes(log_p.batch_size)
    elif batch is not None and log_p.rows > PILOT_ROWS:
        shapes = log_p = with_batch(log_p, space, PILOT_ROWS)
    settings = fit_settings(solver, log_p.dim, steps, batch)
    pilot: Any = settings.pilot
    deadline = float("inf") if seconds is None else clock.begun + RESERVE * seconds
    bar = TrainingBar(screen, "fit", settings.solver.steps, at_most=True)
    with one_blas_thread(), bar, ThreadPoolExecutor(1) as background:
        not_needed = threading.Event()
        training = Training(settings.solver, settings.family, pilot.template(shapes), batch)
        compiling = background.submit(prepare_training, training, not_needed)
        clock.end("reading the model")
        bar.phase("pilot")
        found = _found(settings, log_p, space, derived(words, PILOT))
        clock.end("pilot")
        bar.phase("compiling")
        architecture = _with_modes(settings.family, found)
        has_modes = architecture is not settings.family
        is_gaussian = steps is None and not has_modes and found.kl <= GAIN
        if is_gaussian or has_modes:
            not_needed.set()
        training = training._replace(architecture=architecture, framed=found.framed)
        family = architecture.template(log_p.dim)
        prepare_draws(family, found.framed.template(), space)
        compiling.exception()
        clock.end("compiling")
        bar.phase("training")
        seed = derived(words, TRAINING)
        trained = [] if is_gaussian else train_runs(training, seed, runs, deadline, bar.update)
        clock.end("training")
        bar.phase("evaluating")
        seed = derived(words, EVALUATION)
        best = gaussian_run(family, found, seed) if is_gaussian else best_of(trained, found.framed, seed)
        draws = np.array([draw(run.family, run.target, words, SPREAD_DRAWS).z for run in trained])
    return_memory()
    if not best.converged:
        warnings.warn(f"the fit has not converged: {best.message}; call diagnose(key) on it", stacklevel=2)
    clock.end("evaluating")
    sites = log_p.centred_sites
    return SemiImplicitPosterior(
        family=best.family,
        target=best.target,
        constrain=space.with_degrees(found.degrees) if sites else space,
        guesses=draws_of(found.guesses),
        centring=dict(zip(sites, found.degrees.tolist(), strict=True)),
        history=best.history,
        converged=best.converged,
        message=best.message,
        seconds=clock.seconds,
        phases=clock.phases,
        r_hat=r_hat(draws),
        runs=[curve_of(run.history, run.stalled, chosen=run.history is best.history) for run in trained],
    )


def _with_modes(architecture: Architecture, found: Found) -> Architecture | ModalArchitecture:
    """The architecture, with the modes that the pilot found if there are several and the family has a network."""
    if found.modes is None or architecture.mixing != "network":
        return architecture
    return ModalArchitecture.of(architecture, found.modes)


def draws_of(guesses: list[Guess], count: int = 50) -> Guesses:
    """`count` draws of each Gaussian with a finite ELBO: regions where the posterior may have mass."""
    finite = [guess for guess in guesses if np.isfinite(guess.elbo)]
    noise = np.random.default_rng(0).normal(size=(len(finite), count, len(finite[0].location)))
    draws = [guess.draws(noise[i]) for i, guess in enumerate(finite)]
    return Guesses(np.stack(draws).astype(np.float32), np.array([guess.elbo for guess in finite], np.float64))


def _found(settings: Settings, target: Target, space: Callable[..., Any], words: Words) -> Found:
    """What the pilot finds; raises TargetError if the log density is nowhere finite, or the posterior is improper."""
    pilot: Any = settings.pilot
    search: Search = pilot.search(target, words)
    best, degrees, guesses = search.run(pilot.iterations)
    if not np.isfinite(best.elbo):
        raise TargetError(why_not_finite(space))
    check_proper(search.slopes, best, degrees, space)
    return search.settle(target, best, degrees, guesses)
