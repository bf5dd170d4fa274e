"""Scouts: many short ascents of log p, a quarter of them from around the best Gaussian, the rest from a box around 0.

They show modes that no climb has found: those near the best Gaussian in its own units, and those as far away as an
exchange of labels takes a posterior that is narrow because it has much data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from civi.inference.pilot.modes import apart
from civi.inference.pilot.slopes import TargetSlopes

NEAREST, FARTHEST, BOX = 1.0, 12.0, 4.0
ROUNDS, PATIENCE, GAIN, LONGEST = 40, 5, 0.1, 2.0
TRIED, MOST, LOWER, LOWER_PER_DIMENSION = 16, 8, 10.0, 3.0
SAME = 1.0


def scouted(
    slopes: TargetSlopes, best: Any, known: Sequence[Any], degrees: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Where ascents end, apart from the known Gaussians and from each other (N, D).

    `civi.inference.pilot.modes.apart` says which places are apart. Only the TRIED ends of
    highest log p are looked at, and at most MOST places are returned. A mode whose log p is lower by 10 + 3 D is left
    out: it would have to be about twenty times as wide in every direction to matter.

    Args:
        slopes: log p and its gradient; every round is one call of its program.
        best: the best Gaussian, whose factor is the metric of the ascents.
        known: the Gaussians that climbs have found.
        degrees: degrees of centring of the target.
        rng: draws the starts: draws of the best Gaussian, widened by NEAREST to FARTHEST, and points in (-BOX, BOX).
    """
    dim, around = len(best.location), slopes.points // 4
    radius = np.exp(rng.uniform(np.log(NEAREST), np.log(FARTHEST), (around, 1)))
    in_box = rng.uniform(-BOX, BOX, (slopes.points - around, dim))
    starts = [radius * rng.normal(size=(around, dim)), np.linalg.solve(best.factor, (in_box - best.location).T).T]
    ends, log_p = _ascended(slopes, best, degrees, np.concatenate(starts))
    seen = [np.linalg.solve(best.factor, guess.location - best.location) for guess in known]
    fresh: list[np.ndarray] = []
    tried, lowest = 0, log_p.max() - LOWER - LOWER_PER_DIMENSION * dim
    for i in np.argsort(-log_p):
        if not log_p[i] > lowest or tried == TRIED or len(fresh) == MOST:
            break
        if min(np.linalg.norm(np.array(seen) - ends[i], axis=1)) < SAME:
            continue
        tried += 1
        if apart(lambda w: _at(slopes, best, degrees, w)[0], ends[i], np.array(seen)):
            fresh.append(ends[i])
        seen.append(ends[i])
    return best.location + np.reshape(fresh, (-1, dim)) @ best.factor.T


def _ascended(slopes: TargetSlopes, best: Any, degrees: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points w and their log p after up to ROUNDS steps along the gradient; a step that does not raise log p is undone.

    No step is longer than LONGEST, or a tenth of the distance of the start from the best Gaussian.
    """
    step, longest = np.ones((len(w), 1)), np.maximum(LONGEST, 0.1 * np.linalg.norm(w, axis=1, keepdims=True))
    log_p, score = _at(slopes, best, degrees, w)
    highest = [log_p.copy()]
    for _ in range(ROUNDS):
        move = step * score
        move *= longest / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), longest)
        tried = w + move
        new_log_p, new_score = _at(slopes, best, degrees, tried)
        better = (new_log_p > log_p)[:, None]
        w, score = np.where(better, tried, w), np.where(better, new_score, score)
        log_p, step = np.where(better[:, 0], new_log_p, log_p), np.where(better, 1.5 * step, 0.25 * step)
        highest.append(log_p)
        if len(highest) > PATIENCE and not (log_p > highest[-1 - PATIENCE] + GAIN).any():
            break
    return w, log_p


def _at(slopes: TargetSlopes, best: Any, degrees: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p and its gradient with respect to w; minus infinity and 0 where they are not finite."""
    log_p, score = slopes.at(best.location + w @ best.factor.T, np.repeat(degrees[None], len(w), axis=0))
    good = np.isfinite(log_p) & np.isfinite(score).all(1)
    return np.where(good, log_p, -np.inf), np.where(good[:, None], score, 0) @ best.factor
