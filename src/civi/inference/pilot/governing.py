"""The frame of a Gaussian, with the directions first on which the other coordinates depend most."""

from __future__ import annotations

from typing import Any

import numpy as np

from civi.problem.target import CurvedFrame
from civi.problem.target.triangular import governing

CLIPPED = 0.9


def curved_frame(guess: Any, w: np.ndarray, score: np.ndarray) -> CurvedFrame:
    """The frame in which this Gaussian is standard normal; its trained part starts as the identity.

    Its factor is lower triangular before the rotation that takes the leading directions to the first coordinates, so
    that the other coordinates stay close to those of the target.

    Args:
        guess: the Gaussian, with a lower triangular matrix as its factor.
        w: standard normal points (N, D).
        score: the gradient of log p with respect to z at location + factor w.
    """
    dim = len(guess.location)
    leading = leading_directions(w, score @ guess.factor)
    rest = np.eye(dim)[:, : dim - leading.shape[1]]
    rotation = np.linalg.qr(np.concatenate([leading, rest], axis=1))[0]
    return CurvedFrame.of(guess.location, guess.factor @ rotation)


def leading_directions(w: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Orthonormal directions (D, G): the leading eigenvectors of E[r r^T] with r = score + w.

    r is 0 if the target is standard normal. If log scales s_l = c_l g of many coordinates l depend on a direction g, r
    is 2 c_l g w_l along l and the sum of c_l (w_l^2 - 1) along g, so it has the largest variance along g. The
    longest of the r are shortened to their 90 % quantile, because a few of them could decide otherwise.

    Args:
        w: standard normal points (N, D).
        score: the gradient of log p with respect to w at these points.
    """
    r = np.where(np.isfinite(score).all(1, keepdims=True), score + w, 0)
    length = np.linalg.norm(r, axis=1, keepdims=True)
    longest = max(float(np.quantile(length, CLIPPED)), np.finfo(float).tiny)
    r = r * longest / np.maximum(length, longest)
    return np.linalg.eigh(r.T @ r)[1][:, ::-1][:, : governing(w.shape[1])]
