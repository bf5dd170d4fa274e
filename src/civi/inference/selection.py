"""The best run with its moments corrected, or the pilot's Gaussian, by one estimator of the ELBO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np

from civi.family import MixingNetwork, SemiImplicit
from civi.inference.draws import weigh
from civi.inference.moments import finite_mean, look, matched
from civi.inference.restarts import Run
from civi.inference.seeds import Words, derived, generator
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
    count = max(500, min(DRAWS, EVALUATIONS // framed.rows_seen))
    pilot = framed.with_trained(framed.frame)
    least = elbo_of_gaussian(best.family, pilot, words, count)
    found = look(best.family, best.target, words, count)
    if found.elbo < least:
        message = f"{best.message}; the Gaussian of the pilot has a higher ELBO and is returned"
        return replace(best, family=as_gaussian(best.family), target=pilot, message=message)
    if framed.rows > ROWS_FOR_MOMENTS or not isinstance(best.family.mixing, MixingNetwork):
        return best
    return replace(best, family=matched(best.family, best.target, found, derived(words, 4), least)[0])


def elbo_of_gaussian(family: SemiImplicit, target: Framed, words: Words, count: int) -> float:
    """The ELBO of the Gaussian that is standard normal in the frame; `family` only identifies the program."""
    w = generator(derived(words, 2)).normal(size=(count, target.dim))
    log_p = weigh(family, target, derived(words, 3), w, 1).log_p
    log_q = -0.5 * (w**2).sum(1) - 0.5 * target.dim * np.log(2 * np.pi) - log_volume(target, w)
    return finite_mean(log_p - log_q)


def as_gaussian(family: SemiImplicit) -> SemiImplicit:
    """The family with all parameters 0, for which it is the standard normal distribution of the frame."""
    zero = jax.tree.map(lambda leaf: on_device(np.zeros(leaf.shape)), eqx.filter(family, eqx.is_array))
    return eqx.combine(zero, family)
