"""log p and its gradient at many points, in one compiled program of fixed shape that the whole pilot shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from civi.inference.programs import call, is_lasting, side_by_side
from civi.inference.seeds import Words, as_key
from civi.problem.target import Target
from civi.problem.target.base import each, points_at_a_time, rows_seen
from civi.problem.target.streamed_model import StreamedModel
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
        places = [slice(i, i + self.points) for i in range(0, len(z), self.points)]
        parts = side_by_side([partial(self._part, z[place], degrees[place]) for place in places])
        log_p, score = (np.concatenate(side) for side in zip(*parts, strict=True))
        return log_p, score

    def _part(self, z: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        missing = self.points - len(z)
        z_N, degrees_N = (np.pad(part, [(0, missing), (0, 0)], mode="edge") for part in (z, degrees))
        log_p, score = self._evaluated(z_N, degrees_N)
        return log_p[: len(z)], score[: len(z)]

    def _evaluated(self, z_N: np.ndarray, degrees_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        arguments = (self.target, z_N, degrees_N, self.batch, self.words)
        log_p, score = call(_slopes, *arguments, lasting=is_lasting(self.target))
        return np.asarray(log_p, np.float64), np.asarray(score, np.float64)


@dataclass(frozen=True)
class SlopesByPasses(TargetSlopes):
    """Evaluates a model on all rows of a table on disk, by one pass over it per call of the program.

    On a block of n of the N rows, the model has log p(z) + N/n log p(block given z), so log p on all rows is the mean
    over the blocks, weighted by n/N. It is summed in double precision.
    """

    def _evaluated(self, z_N: np.ndarray, degrees_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        target: Any = self.target
        log_p, score = np.zeros(len(z_N)), np.zeros(z_N.shape)
        for block in target.blocks():
            share, found = len(block) / target.rows, call(_block_slopes, target, z_N, degrees_N, block)
            log_p += share * np.asarray(found[0], np.float64)
            score += share * np.asarray(found[1], np.float64)
        return log_p, score


def at_degrees(target: Any, degrees: Array | np.ndarray) -> Any:
    """The target with these degrees of centring; unchanged if it has none."""
    has_degrees = isinstance(target, TracedTarget | StreamedModel) and target.centred_sites
    return target.with_degrees(degrees) if has_degrees else target


def sites_of(target: Any) -> tuple[str, ...]:
    """Names of the sites that have a degree of centring."""
    return target.centred_sites if isinstance(target, TracedTarget | StreamedModel) else ()


def _block_slopes(target: Any, z_N: Array, degrees_N: Array, block: Array) -> tuple[Array, Array]:
    """The absolute log density on a block of rows, and its gradient."""

    def one(point: tuple[Array, Array]) -> tuple[Array, Array]:
        z, degrees = point
        return jax.value_and_grad(at_degrees(target, degrees).log_prob_on(block))(z)

    return each(one, (z_N, degrees_N), _at_a_time(target, len(z_N), len(block)))


def _slopes(target: Any, z_N: Array, degrees_N: Array, batch: int | None, words: Any) -> tuple[Array, Array]:
    on_rows = target if batch is None else target.batch(as_key(words), batch)
    rows = batch or rows_seen(target)

    def one(point: tuple[Array, Array]) -> tuple[Array, Array]:
        z, degrees = point
        return jax.value_and_grad(at_degrees(on_rows, degrees).log_prob)(z)

    return each(one, (z_N, degrees_N), _at_a_time(on_rows, len(z_N), rows))


def _at_a_time(target: Any, points: int, rows: int) -> int:
    """At how many of these points the target is evaluated at a time, on so many rows."""
    return max(1, min(points_at_a_time(target) or AT_A_TIME, points, ROWS_AT_A_TIME // rows))
