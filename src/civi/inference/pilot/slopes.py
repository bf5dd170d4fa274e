"""log p and its gradient at many points, in one compiled program of fixed shape that the whole pilot shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from civi.inference.programs import call
from civi.inference.seeds import Words, as_rbg
from civi.problem.target import Target
from civi.problem.target.traced import TracedTarget

AT_A_TIME, ROWS_AT_A_TIME = 64, 4_000_000


@dataclass(frozen=True)
class TargetSlopes:
    """Evaluates a target, on all rows of its data or on a fixed random subsample of `batch` rows.

    Attributes:
        target: the target.
        points: number of points per call of the program; fewer points are filled up, more take several calls.
        batch: number of rows; None: all.
        words: the seed of the subsample.
    """

    target: Target
    points: int
    batch: int | None = None
    words: Words | None = None

    def __call__(self, z: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p (S, B) and its gradient (S, B, D) at z (S, B, D), one row of `degrees` (S, K) for each S."""
        count, batch, dim = z.shape
        each = np.repeat(degrees, batch, axis=0)
        log_p, score = self.at(z.reshape(-1, dim), each)
        return log_p.reshape(count, batch), score.reshape(z.shape)

    def at(self, z: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p (N,) and its gradient (N, D) at points z (N, D) with degrees (N, K)."""
        parts = [
            self._part(z[i : i + self.points], degrees[i : i + self.points]) for i in range(0, len(z), self.points)
        ]
        log_p, score = (np.concatenate(side) for side in zip(*parts, strict=True))
        return log_p, score

    def _part(self, z: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        missing = self.points - len(z)
        z_N, degrees_N = (np.pad(part, [(0, missing), (0, 0)], mode="edge") for part in (z, degrees))
        result = call(_slopes, self.target, z_N, degrees_N, self.batch, self.words)
        log_p, score = (np.asarray(part, np.float64)[: len(z)] for part in result)
        return log_p, score


def at_degrees(target: Any, degrees: Array | np.ndarray) -> Any:
    """The target with these degrees of centring; unchanged if it has none."""
    has_degrees = isinstance(target, TracedTarget) and target.centred_sites
    return target.with_degrees(degrees) if has_degrees else target


def sites_of(target: Any) -> tuple[str, ...]:
    """Names of the sites that have a degree of centring."""
    return target.centred_sites if isinstance(target, TracedTarget) else ()


def _slopes(target: Any, z_N: Array, degrees_N: Array, batch: int | None, words: Any) -> tuple[Array, Array]:
    on_rows = target if batch is None else target.batch(as_rbg(words), batch)
    rows = batch or getattr(target, "rows", 0) or 1

    def one(point: tuple[Array, Array]) -> tuple[Array, Array]:
        z, degrees = point
        return jax.value_and_grad(at_degrees(on_rows, degrees).log_prob)(z)

    at_a_time = max(1, min(AT_A_TIME, len(z_N), ROWS_AT_A_TIME // rows))
    single = getattr(target, "one_at_a_time", False)
    return jax.lax.map(one, (z_N, degrees_N), batch_size=None if single else at_a_time)
