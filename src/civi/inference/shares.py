"""The shares of the separate modes of a fit, after training: the thresholds between modes have no gradient.

First each mode takes the share with which the ELBO is highest. The ELBO prefers modes whose shape q has right, so
importance weights then show the shares of the posterior itself.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from scipy.special import softmax
from scipy.stats import norm

from civi.family import SemiImplicit, thresholds
from civi.inference.draws import modes_of_draws
from civi.inference.moments import LARGEST_LOSS, Look, certain, look, usable
from civi.inference.seeds import Words, derived
from civi.problem.target import Framed
from civi.problem.target.program import on_device

SMALLEST, NEGLIGIBLE = 1e-3, 0.005


def with_best_shares(family: SemiImplicit, target: Framed, words: Words, count: int) -> SemiImplicit:
    """The family with the shares pi_k proportional to exp(ELBO_k), which is optimal if modes do not overlap.

    ELBO_k is the mean of log p - log q + log pi_k over the draws of mode k.

    Args:
        family: q with a ModalNetwork, in the coordinates w of the frame.
        target: the target in its frame.
        words: the seed.
        count: number of draws.
    """
    share, found = shares(family), look(family, target, words, count)
    inside = _of_modes(family, words, count)
    if not np.isfinite(found.log_ratios).all() or not inside.any(0).all():
        return family
    elbo = found.log_ratios @ inside / inside.sum(0) + np.log(share)
    return _with_shares(family, softmax(elbo))


def balanced(
    family: SemiImplicit, target: Framed, first: Look, words: Words, least_elbo: float, last: Words
) -> SemiImplicit:
    """The family with the share of the posterior that the importance weights show in each mode.

    A change is kept under the conditions of `civi.inference.moments.matched`.

    Args:
        family: q with a ModalNetwork, in the coordinates w of the frame.
        target: the target in its frame.
        first: a look at this family.
        words: the seed of this look.
        least_elbo: the smallest ELBO that is accepted.
        last: the seed of the look at the changed family.
    """
    weights = usable(first)
    if weights is None:
        return family
    share, inside = shares(family), _of_modes(family, words, len(first.w))
    changed = share + changes(share, inside, weights.log_weights)
    if np.abs(changed - share).max() <= NEGLIGIBLE:
        return family
    candidate = _with_shares(family, changed)
    after = look(candidate, target, last, len(first.w))
    fine = after.elbo >= max(least_elbo, first.elbo - LARGEST_LOSS) and usable(after) is not None
    return candidate if fine else family


def shares(family: Any) -> np.ndarray:
    """The probability of each mode under q."""
    mixing, noise = family.mixing, family.noise
    below = norm.cdf(np.asarray(mixing.threshold, np.float64) / noise.scale)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def changes(share: np.ndarray, inside: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """What to add to each share, as far as the difference exceeds two standard errors.

    Args:
        share: the share of each mode under q (M,).
        inside: whether each draw is in each mode (draw, M).
        log_weights: the logarithm of the importance weight of each draw.
    """
    weights = np.exp(log_weights - log_weights.max())
    weights = weights / weights.sum()
    there = weights @ inside
    error = np.sqrt(weights**2 @ (inside - there) ** 2)
    return certain(there - share, error)


def _of_modes(family: SemiImplicit, words: Words, count: int) -> np.ndarray:
    """Whether each draw of `look` is in each mode (draw, M)."""
    return modes_of_draws(family, derived(words, 0), count)[:, None] == np.arange(len(shares(family)))


def _with_shares(family: SemiImplicit, share: np.ndarray) -> SemiImplicit:
    noise: Any = family.noise
    kept = np.maximum(share, SMALLEST)
    threshold = on_device(np.asarray(thresholds(kept / kept.sum(), noise.scale)))
    return eqx.tree_at(lambda one: one.mixing.threshold, family, threshold)
