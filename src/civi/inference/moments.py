"""The last correction of a fit: location and scale of each coordinate of w by importance-weighted moments.

The ELBO prefers a q that is too narrow to one that is too wide. Importance weights show the means and standard
deviations of the posterior itself, and a change of location and scale of w takes q there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from civi.family import SemiImplicit
from civi.inference.diagnose.divergence import with_own
from civi.inference.diagnose.importance import SmoothedWeights, smooth_weights
from civi.inference.draws import draw, weigh
from civi.inference.seeds import Words, derived
from civi.problem.target import Framed
from civi.problem.target.program import on_device

INNER, ROUNDS = 4000, 2
USABLE, CERTAIN, LARGEST_LOSS, NEGLIGIBLE = 1.0, 2.0, 0.1, 0.02


class Look(NamedTuple):
    """Draws w of q with log p - log q at each, with the upper bound on log q."""

    w: np.ndarray
    log_ratios: np.ndarray

    @property
    def elbo(self) -> float:
        """The mean of the log ratios; minus infinity if it is not finite."""
        return finite_mean(self.log_ratios)


def look(family: SemiImplicit, target: Framed, words: Words, count: int) -> Look:
    """`count` draws of q and their log ratios."""
    drawn = draw(family, target, derived(words, 0), count)
    weighed = weigh(family, target, derived(words, 1), drawn.w, INNER)
    log_q = with_own(weighed.log_q_plain, drawn.own, INNER)
    return Look(drawn.w.astype(np.float64), weighed.log_p - log_q)


def matched(
    family: SemiImplicit, target: Framed, first: Look, words: Words, least_elbo: float
) -> tuple[SemiImplicit, Look]:
    """The family with the importance-weighted mean and standard deviation of each coordinate of w.

    A change is made only if it moves a mean by more than 0.02 sd or a standard deviation by more than 2 %. It is kept
    only if the weights have k_hat below 1 before and after it, and if the ELBO falls by at most 0.1 nats and not below
    `least_elbo`. With k_hat above 0.7 the smoothed weights are biased, but towards q, so that the
    change is too small rather than too large.

    Args:
        family: q in the coordinates w of the frame.
        target: the target in its frame.
        first: a look at this family.
        words: the seed.
        least_elbo: the smallest ELBO that is accepted.
    """
    found, least = first, max(least_elbo, first.elbo - LARGEST_LOSS)
    for number in range(ROUNDS):
        weights = usable(found)
        if weights is None:
            break
        scale, shift = changes(found.w, weights)
        if _negligible(found.w, scale, shift):
            break
        candidate = moved(family, scale, shift)
        after = look(candidate, target, derived(words, number), len(found.w))
        if after.elbo < least or usable(after) is None:
            break
        family, found = candidate, after
    return family, found


def changes(w: np.ndarray, smoothed: SmoothedWeights) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift of w -> scale w + shift that take the moments of the draws to the weighted ones.

    A difference d with the standard error e becomes d max(0, 1 - (2 e / d)^2), so that noise moves nothing.
    """
    weights = np.exp(smoothed.log_weights)
    weights = weights / weights.sum()
    mean, sd = w.mean(0), w.std(0)
    there = weights @ w
    sd_there = np.sqrt(weights @ (w - there) ** 2)
    standard = (w - there) / sd_there
    mean_error = sd_there * np.sqrt(weights**2 @ standard**2)
    log_sd_error = 0.5 * np.sqrt(weights**2 @ (standard**2 - 1) ** 2)
    scale = np.exp(certain(np.log(sd_there / sd), log_sd_error))
    return scale, mean + certain(there - mean, mean_error) - scale * mean


def moved(family: SemiImplicit, scale: np.ndarray, shift: np.ndarray) -> SemiImplicit:
    """The distribution of scale w + shift, for a conditional whose network gives locations and log scales."""
    dim = len(scale)
    weight, bias, log_scale = (np.asarray(part, np.float64).copy() for part in _affine_parts(family))
    weight[:, :dim] *= scale
    bias[:dim] = scale * bias[:dim] + shift
    return eqx.tree_at(_affine_parts, family, tuple(map(on_device, (weight, bias, log_scale + np.log(scale)))))


def finite_mean(values: np.ndarray) -> float:
    """The mean; minus infinity if it is not finite."""
    with np.errstate(invalid="ignore"):
        mean = float(values.mean())
    return mean if np.isfinite(mean) else -np.inf


def _affine_parts(family: Any) -> tuple[Any, Any, Any]:
    mixing, conditional = family.mixing, family.conditional
    return mixing.weights[-1], mixing.biases[-1], conditional.log_scale


def _negligible(w: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> bool:
    """Whether w -> scale w + shift changes every mean and every standard deviation by at most NEGLIGIBLE sd."""
    mean, sd = w.mean(0), w.std(0)
    moved_by = np.abs(scale * mean + shift - mean) / sd
    return bool(max(moved_by.max(), np.abs(np.log(scale)).max()) <= NEGLIGIBLE)


def usable(found: Look) -> SmoothedWeights | None:
    """The weights of these draws, if they are finite and their k_hat is below USABLE."""
    if not np.isfinite(found.log_ratios).all():
        return None
    smoothed = smooth_weights(found.log_ratios)
    return smoothed if smoothed.k_hat < USABLE else None


def certain(difference: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The part of a difference that its standard error leaves."""
    limit = np.maximum(CERTAIN * error, np.finfo(float).tiny)
    return difference * (1 - (limit / np.maximum(np.abs(difference), limit)) ** 2)
