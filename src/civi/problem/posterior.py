"""The problem of one posterior: a semi-implicit family and the target that it approximates."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from civi.estimate import Picked
from civi.family import Outer, SemiImplicit
from civi.parts import constant
from civi.problem.control import FEW, TrainedFrame
from civi.problem.semi_implicit import LogProbEach, SemiImplicitProblem
from civi.problem.target.base import Target, batch_of, check_batch, check_shape, log_prob_each
from civi.problem.target.framed import Framed


class PosteriorProblem(SemiImplicitProblem):
    """Approximate the target by the family, with `batch` rows of the target's data per step (None: all rows).

    Example:
        >>> import civi, jax
        >>> family = civi.Architecture(hidden=(8,)).init(2, jax.random.key(0))
        >>> problem = civi.PosteriorProblem(family, civi.LogDensity(lambda z: -0.5 * (z**2).sum(), 2))
        >>> problem.dim
        2
    """

    family: SemiImplicit
    target: Target = constant()
    batch: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_batch(self.target, self.batch)

    @property
    def dim(self) -> int:
        """Dimension of z."""
        return self.target.dim

    @property
    def has_batches(self) -> bool:
        return self.batch is not None

    @property
    def trained_frame(self) -> TrainedFrame | None:
        frame = self.target.frame if isinstance(self.target, Framed) and self.dim > FEW else None
        return frame if isinstance(frame, TrainedFrame) else None

    def check(self) -> None:
        check_shape(self.target)

    def first_values(self, key: PRNGKeyArray, count: int) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """Draws of q, and log p(x, z) at these draws on all data."""
        z_J = self.family.sample(key, count)
        return z_J, log_prob_each(self.target)(z_J)

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        return self.family.draw_outer(key, count)

    def on_batch(
        self, key: PRNGKeyArray, t: Float[Array, ""] | None = None, nu: Picked | None = None
    ) -> tuple[SemiImplicit, LogProbEach]:
        return self.family, log_prob_each(batch_of(self.target, key, self.batch))
