"""A change of coordinates from w to z, in which the target is about standard normal."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from civi.parts import constant, trained
from civi.problem.target.base import BatchedTarget, Target, batch_of, log_prob_each, rows_seen
from civi.problem.target.program import on_device


class Frame(eqx.Module):
    """z = location + factor w, with a lower triangular factor."""

    location: Float[Array, " D"]
    factor: Float[Array, "D D"]

    @property
    def log_volume(self) -> Float[Array, ""]:
        """log |det factor|."""
        return jnp.log(jnp.diagonal(self.factor)).sum()

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self.location + w @ self.factor.T

    def inward(self, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
        """From the target's coordinates z to frame coordinates w."""
        return solve_triangular(self.factor, (z - self.location).T, lower=True).T

    def adaptive(self) -> AdaptiveFrame:
        """A frame that starts as this one and is trained."""
        return AdaptiveFrame(self, on_device(np.zeros(self.factor.shape)))


class LowRankFrame(eqx.Module):
    """z = location + scale * P w with P = I + Q diag(stretch - 1) Q^T and orthonormal columns Q: cost O(D R)."""

    location: Float[Array, " D"]
    scale: Float[Array, " D"]
    basis: Float[Array, "D R"]
    stretch: Float[Array, " R"]

    @property
    def log_volume(self) -> Float[Array, ""]:
        """log |det|."""
        return jnp.log(self.scale).sum() + jnp.log(self.stretch).sum()

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self.location + self.scale * (w + ((w @ self.basis) * (self.stretch - 1)) @ self.basis.T)

    def inward(self, z: Float[Array | np.ndarray, "N D"]) -> Float[Array | np.ndarray, "N D"]:
        """From the target's coordinates z to frame coordinates w."""
        y = (z - self.location) / self.scale
        return y + ((y @ self.basis) * (1 / self.stretch - 1)) @ self.basis.T

    def adaptive(self) -> AdaptiveLowRankFrame:
        """A frame that starts as this one and is trained."""
        return AdaptiveLowRankFrame(self, on_device(np.zeros(self.stretch.shape)))


class AdaptiveFrame(eqx.Module):
    """z = location + F L w with L trained and unit lower triangular.

    The conditional is diagonal in w, so the pairs log q(w_j | eps_k) need no inverse of F or L. The volume is that of
    F, because det L = 1: scales are learnt by the conditional.
    """

    frame: Frame = constant()
    lower: Float[Array, "D D"] = trained("frame")

    @property
    def location(self) -> Float[Array, " D"]:
        """The location of the frame."""
        return self.frame.location

    @property
    def log_volume(self) -> Float[Array, ""]:
        """log |det F|."""
        return self.frame.log_volume

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self.frame.outward(w + w @ jnp.tril(self.lower, -1).T)

    def settled(self, trained: AdaptiveFrame) -> Frame:
        """The frame F L with the trained array of `trained`, computed in NumPy in double precision."""
        factor, lower = (np.asarray(part, np.float64) for part in (self.frame.factor, trained.lower))
        return Frame(self.frame.location, on_device(factor + factor @ np.tril(lower, -1)))


class AdaptiveLowRankFrame(eqx.Module):
    """A LowRankFrame whose stretch is trained: stretch exp(log_change)."""

    frame: LowRankFrame = constant()
    log_change: Float[Array, " R"] = trained("frame")

    @property
    def location(self) -> Float[Array, " D"]:
        """The location of the frame."""
        return self.frame.location

    @property
    def log_volume(self) -> Float[Array, ""]:
        """log |det|."""
        return self.frame.log_volume + self.log_change.sum()

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self._with(self.frame.stretch * jnp.exp(self.log_change)).outward(w)

    def settled(self, trained: AdaptiveLowRankFrame) -> LowRankFrame:
        """The frame with the trained array of `trained`."""
        return self._with(on_device(np.asarray(self.frame.stretch) * np.exp(np.asarray(trained.log_change))))

    def _with(self, stretch: Float[Array, " R"]) -> LowRankFrame:
        return LowRankFrame(self.frame.location, self.frame.scale, self.frame.basis, stretch)


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
    def one_at_a_time(self) -> bool:
        """Whether the target is evaluated point by point (see `log_prob_each`)."""
        return getattr(self.target, "one_at_a_time", False)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(self.frame.outward(z)) + self.frame.log_volume

    def log_prob_each(self, w_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """log p at several points, for a target that is evaluated point by point."""
        return log_prob_each(self.target)(self.frame.outward(w_J)) + self.frame.log_volume

    def batch(self, key: PRNGKeyArray, count: int) -> Framed:
        """The target on a mini-batch, in the same frame, with a control variate that is exact at the frame's location.

        In units of the posterior scale, the gradient noise of B out of N rows is about sqrt(N/B) without the control
        variate, and about |w| / sqrt(B) with it.
        """
        batch = batch_of(self.target, key, count)
        log_p, slope = jax.value_and_grad(batch.log_prob)(self.frame.location)
        anchored = Anchored(batch, self.frame.location, self.log_p - log_p, self.slope - slope)
        return Framed(anchored, self.frame, self.log_p, self.slope)

    @property
    def log_volume(self) -> float:
        """log |det| of the frame, in NumPy."""
        return log_volume(self)

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
    def one_at_a_time(self) -> bool:
        """Whether the target is evaluated point by point (see `log_prob_each`)."""
        return getattr(self.target, "one_at_a_time", False)

    def log_prob(self, z: Float[Array, " D"]) -> Float[Array, ""]:
        return self.target.log_prob(z) + self.height + self.tilt @ (z - self.location)


def outward(target: Target, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
    """Points in the target's original coordinates; unchanged if the target has no frame."""
    return target.frame.outward(w) if isinstance(target, Framed) else w


def inward(target: Target, z: np.ndarray) -> np.ndarray:
    """Points (N, D) in the coordinates of the target's frame, in NumPy; unchanged if the target has no frame."""
    if not isinstance(target, Framed):
        return z
    frame = jax.tree.map(lambda part: np.asarray(part, np.float64), target.frame)
    if isinstance(frame, LowRankFrame):
        moved: Any = frame.inward(z)
        return moved
    return np.linalg.solve(frame.factor, (z - frame.location).T).T


def log_volume(target: Target) -> float:
    """log |det| of the target's frame, in NumPy; 0 without a frame."""
    if not isinstance(target, Framed):
        return 0.0
    frame = jax.tree.map(lambda part: np.asarray(part, np.float64), target.frame)
    scales = (frame.scale, frame.stretch) if isinstance(frame, LowRankFrame) else (np.diagonal(frame.factor),)
    return float(sum(np.log(part).sum() for part in scales))


def unframed(target: Target) -> Target:
    """The target in its original coordinates."""
    return target.target if isinstance(target, Framed) else target
