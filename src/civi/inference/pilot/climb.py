"""Climb the ELBO with batch and match: each update is accepted only if it raises the ELBO on common draws.

The rate of the updates grows while they are accepted and falls when they are not, as the damping of Levenberg and
Marquardt does. Judged by the ELBO, a climb does not fall into the neck of a hierarchical model, where the log density
is high but the volume is small.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from civi.inference.pilot.matching import Diagonals, Normals, white_noise

GROW, SHRINK, LARGEST_RATE = 4.0, 8.0, 1e10
PATIENCE, GAIN = 6, 0.1
FEWEST = 8


@runtime_checkable
class Slopes(Protocol):
    """log p (S, B) and its gradient (S, B, D) at the points z (S, B, D), one row of `degrees` (S, K) for each S."""

    def __call__(self, z: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate them in one compiled program."""
        ...


class Climbed(NamedTuple):
    """The Gaussians at the end of a climb, and their ELBO (minus infinity where it is not finite)."""

    normals: Any
    elbo: np.ndarray


def climb(
    slopes: Slopes,
    normals: Normals | Diagonals,
    degrees: np.ndarray,
    rng: np.random.Generator,
    batch: int,
    iterations: int,
) -> Climbed:
    """Climb from each of these Gaussians, side by side, until none gains GAIN nats within PATIENCE updates.

    Args:
        slopes: log p and its gradient.
        normals: where the climbs start.
        degrees: degrees of centring of each climb.
        rng: draws the noise, which all climbs share.
        batch: number of draws per update.
        iterations: largest number of updates.
    """
    count, dim = normals.location.shape
    rate, history = np.full(count, float(batch * dim)), []
    for _ in range(iterations):
        noise = white_noise(rng, batch, dim)
        log_p, score = slopes(z := normals.draws(noise), degrees)
        before = elbo_of(log_p, normals)
        good = np.isfinite(log_p) & np.isfinite(score).all(-1)
        lost = good.sum(1) < max(FEWEST, batch // 2)
        tried = _tried(normals, z, np.where(good[..., None], score, 0), good | lost[:, None], rate, lost)
        after = elbo_of(slopes(tried.draws(noise), degrees)[0], tried)
        accepted = (after > before) | lost
        normals = _chosen(accepted, tried, normals)
        rate = np.where(accepted, np.minimum(GROW * rate, LARGEST_RATE), rate / SHRINK)
        history.append(np.maximum(before, after))
        if len(history) > PATIENCE and (history[-1] < history[-1 - PATIENCE] + GAIN).all():
            break
    return Climbed(normals, history[-1] if history else np.full(count, -np.inf))


def elbo_of(log_p: np.ndarray, normals: Normals | Diagonals) -> np.ndarray:
    """E[log p] + entropy of each Gaussian, from log p at its draws (S, B); minus infinity if it is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        elbo = log_p.mean(1) + normals.entropy()
    return np.where(np.isfinite(elbo), elbo, -np.inf)


def _tried(normals: Any, z: np.ndarray, score: np.ndarray, good: np.ndarray, rate: np.ndarray, lost: np.ndarray) -> Any:
    """The updated Gaussians; one with too few finite draws is made narrower and moved towards 0 instead."""
    narrower = normals.widened(0.5)._replace(location=0.7 * normals.location)
    try:
        matched = normals.matched(z, score, good, rate)
    except np.linalg.LinAlgError:
        return _chosen(lost, narrower, normals)
    finite = np.array([all(np.isfinite(part[i]).all() for part in matched) for i in range(len(lost))])
    return _chosen(lost, narrower, _chosen(finite, matched, normals))


def _chosen(which: np.ndarray, new: Any, old: Any) -> Any:
    """`new` where `which` is true, otherwise `old`."""
    return type(old)(*(np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(new, old, strict=True)))
