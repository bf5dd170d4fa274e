"""Batch and match (Cai et al. 2024): Gaussian variational inference by score matching, in closed form.

Given B draws z_b of N(mu, Sigma) and the scores g_b = grad log p(z_b), one update is the Gaussian that minimises

    score-based divergence to p on the draws  +  (2 / rate) KL(N(mu, Sigma) || .)

For a Gaussian target, a large rate finds it in one update. Everything is in double precision, and several Gaussians are
updated side by side: the leading axis S numbers them. From THREADED dimensions on, each has its own thread.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from civi.inference.programs import side_by_side

THREADED = 50
LOG_2PI = float(np.log(2 * np.pi))


class Normals(NamedTuple):
    """Gaussians N(location, factor factor^T) with dense factors: location (S, D) and factor (S, D, D)."""

    location: np.ndarray
    factor: np.ndarray

    @classmethod
    def around(cls, location: np.ndarray, scale: float) -> Normals:
        """Gaussians with these locations and the covariance scale^2 I."""
        count, dim = location.shape
        return cls(location, np.broadcast_to(scale * np.eye(dim), (count, dim, dim)).copy())

    def draws(self, noise: np.ndarray) -> np.ndarray:
        """Draws (S, B, D) from standard normal noise (B, D)."""
        return self.location[:, None] + noise @ np.swapaxes(self.factor, 1, 2)

    def entropy(self) -> np.ndarray:
        """The entropy of each."""
        return np.linalg.slogdet(self.factor)[1] + 0.5 * self.location.shape[1] * (1 + LOG_2PI)

    def widened(self, factor: float) -> Normals:
        """The same with scales multiplied by `factor`."""
        return Normals(self.location, factor * self.factor)

    def matched(self, z: np.ndarray, score: np.ndarray, good: np.ndarray, rate: np.ndarray) -> Normals:
        """One update of batch and match in square-root form.

        With V = Sigma + rate C + rate / (1 + rate) (mu - zbar)(mu - zbar)^T = L L^T and
        U = rate Gamma + rate / (1 + rate) gbar gbar^T = W W^T, where C and Gamma are the covariances of draws and
        scores, the new covariance solves Sigma U Sigma + Sigma = V:

            Sigma = L E diag(2 / (1 + sqrt(1 + 4 s^2))) E^T L^T,   L^T U L = E diag(s^2) E^T
            mu    = mu / (1 + rate) + rate / (1 + rate) (Sigma gbar + zbar)

        Args:
            z: draws (S, B, D).
            score: the gradient of log p at the draws (S, B, D).
            good: which draws count (S, B).
            rate: the rate of each Gaussian (S,).
        """
        parts = [slice(i, i + 1) for i in range(len(z))] if z.shape[2] >= THREADED else [slice(None)]
        each = (partial(self._part(part)._matched, z[part], score[part], good[part], rate[part]) for part in parts)
        return Normals(*(np.concatenate(side) for side in zip(*side_by_side(list(each)), strict=True)))

    def _part(self, part: slice) -> Normals:
        return Normals(self.location[part], self.factor[part])

    def _matched(self, z: np.ndarray, score: np.ndarray, good: np.ndarray, rate: np.ndarray) -> Normals:
        zbar, gbar = _means(z, good), _means(score, good)
        root, blend = np.sqrt(rate / good.sum(1))[:, None, None], (rate / (1 + rate))[:, None]
        away = np.sqrt(blend) * (self.location - zbar)
        columns = [np.swapaxes(self.factor, 1, 2), root * _centred(z, zbar, good), away[:, None]]
        lower = np.swapaxes(np.linalg.qr(np.concatenate(columns, axis=1), mode="r"), 1, 2)
        rows = np.concatenate([root * _centred(score, gbar, good), (np.sqrt(blend) * gbar)[:, None]], axis=1) @ lower
        square, vectors = np.linalg.eigh(np.swapaxes(rows, 1, 2) @ rows)
        shrink = np.sqrt(2 / (1 + np.sqrt(1 + 4 * np.maximum(square, 0))))
        factor = (lower @ vectors) * shrink[:, None]
        step = np.einsum("sij,skj,sk->si", factor, factor, gbar)
        return Normals(self.location + blend * (step + zbar - self.location), factor)


class Diagonals(NamedTuple):
    """Gaussians with independent coordinates, for many dimensions: location (S, D) and scale (S, D)."""

    location: np.ndarray
    scale: np.ndarray

    @classmethod
    def around(cls, location: np.ndarray, scale: float) -> Diagonals:
        """Gaussians with these locations and the covariance scale^2 I."""
        return cls(location, np.full_like(location, scale))

    def draws(self, noise: np.ndarray) -> np.ndarray:
        """Draws (S, B, D) from standard normal noise (B, D)."""
        return self.location[:, None] + noise * self.scale[:, None]

    def entropy(self) -> np.ndarray:
        """The entropy of each."""
        return np.log(self.scale).sum(1) + 0.5 * self.location.shape[1] * (1 + LOG_2PI)

    def widened(self, factor: float) -> Diagonals:
        """The same with scales multiplied by `factor`."""
        return Diagonals(self.location, factor * self.scale)

    def matched(self, z: np.ndarray, score: np.ndarray, good: np.ndarray, rate: np.ndarray) -> Diagonals:
        """The update of `Normals.matched` for every coordinate by itself: u sigma^4 + sigma^2 = v."""
        zbar, gbar = _means(z, good), _means(score, good)
        weight, blend = (rate / good.sum(1))[:, None], (rate / (1 + rate))[:, None]
        v = self.scale**2 + weight * (_centred(z, zbar, good) ** 2).sum(1) + blend * (self.location - zbar) ** 2
        u = weight * (_centred(score, gbar, good) ** 2).sum(1) + blend * gbar**2
        variance = 2 * v / (1 + np.sqrt(1 + 4 * u * v))
        return Diagonals(self.location + blend * (variance * gbar + zbar - self.location), np.sqrt(variance))


def white_noise(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    """Standard normal noise (count, dim) with mean exactly 0 and, if count > dim + 1, covariance exactly I."""
    noise = rng.normal(size=(count, dim))
    noise -= noise.mean(0)
    if count <= dim + 1:
        return noise
    return np.linalg.solve(np.linalg.cholesky(noise.T @ noise / count), noise.T).T


def _means(values: np.ndarray, good: np.ndarray) -> np.ndarray:
    return np.where(good[..., None], values, 0).sum(1) / good.sum(1)[:, None]


def _centred(values: np.ndarray, mean: np.ndarray, good: np.ndarray) -> np.ndarray:
    return np.where(good[..., None], values - mean[:, None], 0)
