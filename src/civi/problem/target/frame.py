"""Changes of coordinates from w to z, in which the target is about standard normal: fixed ones, and trained ones."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from civi.parts import constant, trained
from civi.problem.target.program import on_device
from civi.problem.target.triangular import TriangularMap


class Frame(eqx.Module):
    """z = location + factor w, with a lower triangular factor."""

    location: Float[Array, " D"]
    factor: Float[Array, "D D"]

    def log_volume(self, w: Float[Array, "*N D"]) -> Float[Array, "*N"]:
        """log |det factor|, the same for every w."""
        return jnp.full(w.shape[:-1], jnp.log(jnp.diagonal(self.factor)).sum())

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self.location + w @ self.factor.T

    def inward(self, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
        """From the target's coordinates z to frame coordinates w."""
        return solve_triangular(self.factor, (z - self.location).T, lower=True).T


class CurvedFrame(eqx.Module):
    """z = location + factor T(w) with a nonsingular factor and a TriangularMap T; `log_det` is log |det factor|."""

    location: Float[Array, " D"]
    factor: Float[Array, "D D"]
    log_det: Float[Array, ""]
    curve: TriangularMap

    @classmethod
    def of(cls, location: np.ndarray, factor: np.ndarray) -> CurvedFrame:
        """The linear frame z = location + factor w."""
        log_det = on_device(np.linalg.slogdet(factor)[1])
        return cls(on_device(location), on_device(factor), log_det, TriangularMap.identity(len(location)))

    def log_volume(self, w: Float[Array, "*N D"]) -> Float[Array, "*N"]:
        """log |det factor| + log |det dT/dw|."""
        return self.log_det + self.curve.outward(w)[1]

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self.location + self.curve.outward(w)[0] @ self.factor.T

    def inward(self, z: Float[Array, "N D"]) -> Float[Array, "N D"]:
        """From the target's coordinates z to frame coordinates w."""
        return self.curve.inward(jnp.linalg.solve(self.factor, (z - self.location).T).T)

    def adaptive(self, curved: bool = True) -> AdaptiveFrame:
        """A frame that starts as this one and is trained; without `curved`, T is not."""
        return AdaptiveFrame(self, on_device(np.zeros(self.factor.shape)), self.curve, curved)


class LowRankFrame(eqx.Module):
    """z = location + scale * P w with P = I + Q diag(stretch - 1) Q^T and orthonormal columns Q: cost O(D R)."""

    location: Float[Array, " D"]
    scale: Float[Array, " D"]
    basis: Float[Array, "D R"]
    stretch: Float[Array, " R"]

    def log_volume(self, w: Float[Array, "*N D"]) -> Float[Array, "*N"]:
        """log |det|, the same for every w."""
        return jnp.full(w.shape[:-1], jnp.log(self.scale).sum() + jnp.log(self.stretch).sum())

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
    """z = location + F L T(w) with L trained and unit lower triangular, and T a trained TriangularMap.

    The conditional is diagonal in w, so the pairs log q(w_j | eps_k) need no inverse of F or L. Because det L = 1,
    common scales are learnt by the conditional, and scales that depend on global coordinates by T. Without `curved`, T
    keeps its values: with the identity, the distribution of z for a Gaussian w stays Gaussian.
    """

    frame: CurvedFrame = constant()
    lower: Float[Array, "D D"] = trained("frame")
    curve: TriangularMap = trained("frame")
    curved: bool = eqx.field(static=True, default=True)

    @property
    def location(self) -> Float[Array, " D"]:
        """The location of the frame."""
        return self.frame.location

    def log_volume(self, w: Float[Array, "*N D"]) -> Float[Array, "*N"]:
        """log |det F| + log |det dT/dw|."""
        return self.frame.log_det + self._curve.outward(w)[1]

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        curved = self._curve.outward(w)[0]
        return self.frame.location + (curved + curved @ jnp.tril(self.lower, -1).T) @ self.frame.factor.T

    def control(self, w_J: Float[Array, "J D"], score_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """score . L T(w) and the control variate of T: see `civi.problem.control`.

        L is strictly lower triangular here, and T(w)_k depends on w_1 .. w_k only, so d T(w)_k / d w_i = 0 for i > k.
        """
        curved_J = jax.lax.stop_gradient(self._curve.outward(w_J)[0])
        moved_J = curved_J @ jnp.tril(self.lower, -1).T
        return (score_J * moved_J).sum(-1) + self._curve.control(w_J, score_J)

    def settled(self, trained: AdaptiveFrame) -> CurvedFrame:
        """The frame with the trained arrays of `trained`; the factor F L is computed in double precision."""
        factor, lower = (np.asarray(part, np.float64) for part in (self.frame.factor, trained.lower))
        curve = jax.tree.map(on_device, trained.curve)
        changed = on_device(factor + factor @ np.tril(lower, -1))
        return CurvedFrame(self.frame.location, changed, self.frame.log_det, curve)

    @property
    def _curve(self) -> TriangularMap:
        return self.curve if self.curved else jax.lax.stop_gradient(self.curve)


class AdaptiveLowRankFrame(eqx.Module):
    """A LowRankFrame whose stretch is trained: stretch exp(log_change)."""

    frame: LowRankFrame = constant()
    log_change: Float[Array, " R"] = trained("frame")

    @property
    def location(self) -> Float[Array, " D"]:
        """The location of the frame."""
        return self.frame.location

    def log_volume(self, w: Float[Array, "*N D"]) -> Float[Array, "*N"]:
        """log |det|, the same for every w."""
        return self.frame.log_volume(w) + self.log_change.sum()

    def outward(self, w: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        """From frame coordinates w to the target's coordinates z."""
        return self._with(self.frame.stretch * jnp.exp(self.log_change)).outward(w)

    def control(self, w_J: Float[Array, "J D"], score_J: Float[Array, "J D"]) -> Float[Array, " J"]:
        """sum_r log_change_r [(score . Q_r) (w . Q_r) + 1]: see `civi.problem.control`."""
        basis = self.frame.basis
        return ((score_J @ basis) * (w_J @ basis) + 1) @ self.log_change

    def settled(self, trained: AdaptiveLowRankFrame) -> LowRankFrame:
        """The frame with the trained array of `trained`."""
        return self._with(on_device(np.asarray(self.frame.stretch) * np.exp(np.asarray(trained.log_change))))

    def _with(self, stretch: Float[Array, " R"]) -> LowRankFrame:
        return LowRankFrame(self.frame.location, self.frame.scale, self.frame.basis, stretch)
