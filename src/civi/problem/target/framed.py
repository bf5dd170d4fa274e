"""A target in the coordinates w of a frame, and the maps between these and the target's own coordinates z."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from civi.problem.target.base import (
    BatchedTarget,
    Target,
    batch_of,
    log_prob_each,
    points_at_a_time,
    rows_seen,
    work_of,
)
from civi.problem.target.frame import CurvedFrame, LowRankFrame


class Framed(eqx.Module):
    """A target as a density of w, including the Jacobian, so that neg_elbo is the same in both coordinates.

    `log_p` and `slope` are log p(x, z) and its gradient at the frame's location, on all data.
    """

    target: Target
    frame: Any
    log_p: Float[Array, ""]
    slope: Float[Array, " D"]

    @classmethod
    def at(cls, target: Target, frame: Any) -> Framed:
        """The target in this frame, with its value and its gradient at the frame's location."""
        return cls(target, frame, *jax.value_and_grad(target.log_prob)(frame.location))

    @property
    def dim(self) -> int:
        return self.target.dim

    @property
    def rows(self) -> int:
        """Number of rows of data of the target; 0 if it has none."""
        return self.target.rows if isinstance(self.target, BatchedTarget) else 0

    @property
    def rows_seen(self) -> int:
        """Number of rows that one evaluation reads."""
        return rows_seen(self.target)

    @property
    def points_at_a_time(self) -> int | None:
        """Number of points to evaluate at a time; None for any number (see `Program`)."""
        return points_at_a_time(self.target)

    @property
    def work(self) -> int:
        """About how many numbers one evaluation computes."""
        return work_of(self.target)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(self.frame.outward(z)) + self.frame.log_volume(z)

    def log_prob_each(self, w_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """log p at several points; the frame is evaluated at all of them at once."""
        return log_prob_each(self.target)(self.frame.outward(w_J)) + self.frame.log_volume(w_J)

    def batch(self, key: PRNGKeyArray, count: int) -> Framed:
        """The target on a mini-batch, in the same frame, with a control variate that is exact at the frame's location.

        In units of the posterior scale, the gradient noise of B out of N rows is about sqrt(N/B) without the control
        variate, and about |w| / sqrt(B) with it.
        """
        batch = batch_of(self.target, key, count)
        log_p, slope = jax.value_and_grad(batch.log_prob)(self.frame.location)
        anchored = Anchored(batch, self.frame.location, self.log_p - log_p, self.slope - slope)
        return Framed(anchored, self.frame, self.log_p, self.slope)

    def template(self) -> Framed:
        """The same with a frame that is not trained; for arrays that are given by their shapes."""
        return Framed(self.target, self.frame.frame, self.log_p, self.slope)

    def settled(self) -> Framed:
        """The target in its own frame, which is no longer trained."""
        return self.with_trained(self.frame) if hasattr(self.frame, "settled") else self

    def with_trained(self, trained: Any) -> Framed:
        """The target in a frame that is no longer trained; `trained` has the trained arrays of the adaptive frame."""
        return Framed(self.target, self.frame.settled(trained), self.log_p, self.slope)


class Anchored(eqx.Module):
    """Control variate: a mini-batch log density plus a linear function that makes it first-order exact at `location`.

    The linear function averages to 0 over mini-batches at every z, so the sum stays unbiased.
    """

    target: Target
    location: Float[Array, " D"]
    height: Float[Array, ""]
    tilt: Float[Array, " D"]

    @property
    def dim(self) -> int:
        return self.target.dim

    @property
    def points_at_a_time(self) -> int | None:
        """Number of points to evaluate at a time; None for any number (see `Program`)."""
        return points_at_a_time(self.target)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(z) + self.height + self.tilt @ (z - self.location)


def outward(target: Target, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
    """Points in the target's original coordinates; unchanged if the target has no frame."""
    return target.frame.outward(w) if isinstance(target, Framed) else w


def inward(target: Target, z: np.ndarray) -> np.ndarray:
    """Points (N, D) in the coordinates of the target's frame, in NumPy; unchanged if the target has no frame."""
    if not isinstance(target, Framed):
        return z
    frame = in_double_precision(target.frame)
    if isinstance(frame, LowRankFrame):
        moved: Any = frame.inward(z)
        return moved
    w = np.linalg.solve(frame.factor, (z - frame.location).T).T
    return frame.curve.inward(w) if isinstance(frame, CurvedFrame) else w


def log_volume(target: Target, w: np.ndarray) -> np.ndarray:
    """log |det dz/dw| of the target's frame at the points w (N, D), in NumPy; 0 without a frame."""
    if not isinstance(target, Framed):
        return np.zeros(len(w))
    frame = in_double_precision(target.frame)
    if isinstance(frame, CurvedFrame):
        return frame.log_det + frame.curve.outward(np.asarray(w, np.float64))[1]
    scales = (frame.scale, frame.stretch) if isinstance(frame, LowRankFrame) else (np.diagonal(frame.factor),)
    return np.full(len(w), sum(np.log(part).sum() for part in scales))


def in_double_precision(frame: Any) -> Any:
    """The frame with NumPy arrays in double precision."""
    return jax.tree.map(lambda part: np.asarray(part, np.float64), frame)


def unframed(target: Target) -> Target:
    """The target in its original coordinates."""
    return target.target if isinstance(target, Framed) else target
