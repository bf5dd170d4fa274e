"""A frame with a few directions of correlation, for targets of many dimensions.

In coordinates where the Gaussian of the climb is standard normal, the curvature H of the target is the identity plus
what the climb with independent coordinates could not see. A block Krylov space finds the directions in which H differs
most from the identity; finite differences of the gradient give H v.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from civi.inference.pilot.slopes import TargetSlopes
from civi.problem.target import LowRankFrame
from civi.problem.target.program import on_device

BLOCK, BLOCKS = 32, 8
RANK = 64
DIFFERENT = np.log(1.1)
FLATTEST, NEWTON_STEPS = 1e-4, 10


def low_rank_frame(slopes: TargetSlopes, guess: Any, degrees: np.ndarray) -> LowRankFrame:
    """The frame of this Gaussian with independent coordinates, corrected in up to RANK directions.

    Unused directions are 0, so that the shapes do not depend on how many there are.

    Args:
        slopes: log p and its gradient.
        guess: the Gaussian, with its scales in `factor`.
        degrees: degrees of centring of the target.
    """
    location, scale = guess.location, guess.factor
    each = np.broadcast_to(degrees, (1, len(degrees)))

    def curvature(columns: np.ndarray) -> np.ndarray:
        """- scale H scale v for each column v, from gradients one standard deviation away on either side."""
        away = scale * columns.T
        points = np.concatenate([location + away, location - away])
        score = slopes.at(points, np.repeat(each, len(points), axis=0))[1]
        return (0.5 * scale * (score[len(away) :] - score[: len(away)])).T

    values, basis = _extreme(curvature, len(location))
    stretch = 1 / np.sqrt(np.maximum(np.abs(values), FLATTEST))
    location = _climbed(slopes, location, scale, basis, stretch, each)
    missing = RANK - len(stretch)
    basis, stretch = np.pad(basis, [(0, 0), (0, missing)]), np.pad(stretch, (0, missing), constant_values=1.0)
    return LowRankFrame(*(on_device(part) for part in (location, scale, basis, stretch)))


def _extreme(curvature: Any, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The Ritz values and vectors of the curvature that differ most from 1."""
    block = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, BLOCK)))[0]
    space, images = [block], [curvature(block)]
    for _ in range(BLOCKS - 1):
        fresh = images[-1]
        for _ in range(2):
            fresh = fresh - sum(old @ (old.T @ fresh) for old in space)
        block = np.linalg.qr(fresh)[0]
        space.append(block)
        images.append(curvature(block))
    basis, image = np.concatenate(space, axis=1), np.concatenate(images, axis=1)
    small = basis.T @ image
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    residual = np.linalg.norm(image @ vectors - basis @ (vectors * values), axis=0)
    distance = np.abs(np.log(np.maximum(np.abs(values), FLATTEST)))
    kept = np.argsort(-distance)[:RANK]
    kept = kept[(distance[kept] > DIFFERENT) & (residual[kept] < 0.5 * np.maximum(np.abs(values[kept]), 0.5))]
    return values[kept], basis @ vectors[:, kept]


def _climbed(
    slopes: TargetSlopes,
    location: np.ndarray,
    scale: np.ndarray,
    basis: np.ndarray,
    stretch: np.ndarray,
    degrees: np.ndarray,
) -> np.ndarray:
    """The location after damped Newton steps along the corrected directions."""
    log_p, score = slopes.at(location[None], degrees)
    for _ in range(NEWTON_STEPS):
        white = scale * score[0]
        inner = basis.T @ white
        step = scale * (basis @ (stretch**2 * inner))
        sizes = 0.5 ** np.arange(8)
        tried = location + sizes[:, None] * step
        values, scores = slopes.at(tried, np.repeat(degrees, len(tried), axis=0))
        best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        if not values[best] > log_p[0]:
            break
        location, log_p, score = tried[best], values[best : best + 1], scores[best : best + 1]
    return location
