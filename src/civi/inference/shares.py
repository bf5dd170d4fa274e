"""The last correction of a fit with separate modes: the share of each by importance weights.

The thresholds between modes have no gradient, so that training does not change the shares that the pilot found.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from scipy.stats import norm

from civi.family import SemiImplicit, thresholds
from civi.inference.draws import modes_of_draws
from civi.inference.moments import LARGEST_LOSS, Look, certain, look, usable
from civi.inference.seeds import Words, derived
from civi.problem.target import Framed
from civi.problem.target.program import on_device

SMALLEST, NEGLIGIBLE = 1e-3, 0.005


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
    share = shares(family)
    changed = share + changes(share, modes_of_draws(family, derived(words, 0), len(first.w)), weights.log_weights)
    changed = np.maximum(changed, SMALLEST) / np.maximum(changed, SMALLEST).sum()
    if np.abs(changed - share).max() <= NEGLIGIBLE:
        return family
    noise: Any = family.noise
    threshold = on_device(np.asarray(thresholds(changed, noise.scale)))
    candidate = eqx.tree_at(lambda one: one.mixing.threshold, family, threshold)
    after = look(candidate, target, last, len(first.w))
    fine = after.elbo >= max(least_elbo, first.elbo - LARGEST_LOSS) and usable(after) is not None
    return candidate if fine else family


def shares(family: Any) -> np.ndarray:
    """The probability of each mode under q."""
    mixing, noise = family.mixing, family.noise
    below = norm.cdf(np.asarray(mixing.threshold, np.float64) / noise.scale)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def changes(share: np.ndarray, mode_of_draw: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """What to add to each share, as far as the difference exceeds two standard errors.

    Args:
        share: the share of each mode under q.
        mode_of_draw: the mode of each draw.
        log_weights: the logarithm of the importance weight of each draw.
    """
    weights = np.exp(log_weights - log_weights.max())
    weights = weights / weights.sum()
    inside = mode_of_draw[:, None] == np.arange(len(share))
    there = weights @ inside
    error = np.sqrt(weights**2 @ (inside - there) ** 2)
    return certain(there - share, error)
