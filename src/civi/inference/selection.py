"""The better of the best run and the pilot's Gaussian, by one estimator of the ELBO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np

from civi.family import SemiImplicit
from civi.inference.diagnose.divergence import with_own
from civi.inference.draws import draw, weigh
from civi.inference.restarts import Run
from civi.inference.seeds import Words, derived, generator
from civi.problem.target import Framed, log_volume
from civi.problem.target.program import on_device

DRAWS, INNER, EVALUATIONS = 4000, 20_000, 4_000_000_000


def best_of(runs: Sequence[Run], framed: Framed, words: Words) -> Run:
    """The run with the highest ELBO, or the Gaussian of the pilot if its ELBO is higher.

    Args:
        runs: the trained runs.
        framed: the target in the frame of the pilot, which is trained.
        words: the seed.
    """
    best = min(runs, key=lambda run: run.neg_elbo)
    count = max(500, min(DRAWS, EVALUATIONS // framed.rows_seen))
    pilot = framed.with_trained(framed.frame)
    if elbo(best.family, best.target, words, count) >= elbo_of_gaussian(best.family, pilot, words, count):
        return best
    message = f"{best.message}; the Gaussian of the pilot has a higher ELBO and is returned"
    return replace(best, family=as_gaussian(best.family), target=pilot, message=message)


def elbo(family: SemiImplicit, target: Framed, words: Words, count: int) -> float:
    """E_q[log p - log q] from `count` draws, with the upper bound on log q; minus infinity if it is not finite."""
    drawn = draw(family, target, derived(words, 0), count)
    weighed = weigh(family, target, derived(words, 1), drawn.w, INNER)
    log_q = with_own(weighed.log_q_plain, drawn.own, INNER)
    return _finite_mean(weighed.log_p - log_q)


def elbo_of_gaussian(family: SemiImplicit, target: Framed, words: Words, count: int) -> float:
    """The same for the Gaussian that is standard normal in the frame; `family` only identifies the program."""
    w = generator(derived(words, 2)).normal(size=(count, target.dim))
    log_p = weigh(family, target, derived(words, 3), w, 1).log_p
    log_q = -0.5 * (w**2).sum(1) - 0.5 * target.dim * np.log(2 * np.pi) - log_volume(target, w)
    return _finite_mean(log_p - log_q)


def as_gaussian(family: SemiImplicit) -> SemiImplicit:
    """The family with all parameters 0, for which it is the standard normal distribution of the frame."""
    zero = jax.tree.map(lambda leaf: on_device(np.zeros(leaf.shape)), eqx.filter(family, eqx.is_array))
    return eqx.combine(zero, family)


def _finite_mean(values: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        mean = float(values.mean())
    return mean if np.isfinite(mean) else -np.inf
