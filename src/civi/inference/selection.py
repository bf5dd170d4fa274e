"""The best run with its moments corrected, or the pilot's Gaussian, by one estimator of the ELBO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from civi.family import MixingNetwork, ModalNetwork, SemiImplicit
from civi.inference.draws import weigh
from civi.inference.moments import Look, finite_mean, look, matched
from civi.inference.pilot.gaussian import Found
from civi.inference.restarts import Run, no_history
from civi.inference.seeds import Words, derived, generator
from civi.inference.shares import balanced, with_best_shares
from civi.problem.target import Framed, log_volume
from civi.problem.target.program import on_device

DRAWS, EVALUATIONS = 8000, 4_000_000_000
ROWS_FOR_MOMENTS = 100_000


def best_of(runs: Sequence[Run], framed: Framed, words: Words) -> Run:
    """The run with the highest ELBO after the correction of its moments, or the pilot's Gaussian if that is better.

    Args:
        runs: the trained runs.
        framed: the target in the frame of the pilot, which is trained.
        words: the seed.
    """
    best = min(runs, key=lambda run: run.neg_elbo)
    if isinstance(best.family.mixing, ModalNetwork):
        family = with_best_shares(best.family, best.target, derived(words, 5), _draws(framed))
        best = replace(best, family=family)
    pilot = framed.with_trained(framed.frame)
    least = elbo_of_gaussian(best.family, pilot, words, _draws(framed))
    found = look(best.family, best.target, words, _draws(framed))
    if found.elbo < least:
        message = f"{best.message}; the Gaussian of the pilot has a higher ELBO and is returned"
        return replace(best, family=as_gaussian(best.family), target=pilot, message=message)
    return _corrected(best, found, words, least) if _can_be_corrected(best) else best


def gaussian_run(template: SemiImplicit, found: Found, words: Words) -> Run:
    """The pilot's Gaussian with its moments corrected, as a run without steps.

    Args:
        template: a family with shapes in place of its arrays.
        found: what the pilot found.
        words: the seed.
    """
    pilot = found.framed.with_trained(found.framed.frame)
    family = as_gaussian(template)
    distance = f"{max(found.kl, 1e-4):.1g} nats"
    message = f"the Gaussian of the pilot is within {distance} of the posterior, so nothing was trained"
    run = Run(family, pilot, no_history(), converged=True, message=message)
    if not _can_be_corrected(run):
        return run
    return _corrected(run, look(family, pilot, words, _draws(pilot)), words)


def _can_be_corrected(run: Run) -> bool:
    """Whether the moments of the run can be corrected: not with very many rows or another form of the family."""
    return run.target.rows <= ROWS_FOR_MOMENTS and isinstance(run.family.mixing, MixingNetwork | ModalNetwork)


def _corrected(run: Run, found: Look, words: Words, least_elbo: float = -np.inf) -> Run:
    if isinstance(run.family.mixing, ModalNetwork):
        family = balanced(run.family, run.target, found, words, least_elbo, derived(words, 4))
    else:
        family, _ = matched(run.family, run.target, found, derived(words, 4), least_elbo)
    return replace(run, family=family)


def _draws(framed: Framed) -> int:
    return max(500, min(DRAWS, EVALUATIONS // framed.rows_seen))


def elbo_of_gaussian(family: SemiImplicit, target: Framed, words: Words, count: int) -> float:
    """The ELBO of the Gaussian that is standard normal in the frame; `family` only identifies the program."""
    w = generator(derived(words, 2)).normal(size=(count, target.dim))
    log_p = weigh(family, target, derived(words, 3), w, 1).log_p
    log_q = -0.5 * (w**2).sum(1) - 0.5 * target.dim * np.log(2 * np.pi) - log_volume(target, w)
    return finite_mean(log_p - log_q)


def as_gaussian(family: SemiImplicit) -> SemiImplicit:
    """The family with all parameters 0, for which it is the standard normal distribution of the frame.

    The arrays of the argument may be given by their shapes.
    """
    is_array = lambda leaf: isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)  # noqa: E731
    return jax.tree.map(lambda leaf: on_device(np.zeros(leaf.shape)) if is_array(leaf) else leaf, family)
