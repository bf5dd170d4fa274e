"""A posterior problem whose trained arrays are one vector: updates and checks are then single loops over it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from civi.estimate import Picked
from civi.family import Outer, SemiImplicit
from civi.parts import constant, split, trained
from civi.problem.control import TrainedFrame
from civi.problem.posterior import PosteriorProblem
from civi.problem.semi_implicit import LogProbEach, SemiImplicitProblem
from civi.problem.target.space import TreeSpace


class FlatProblem(SemiImplicitProblem):
    """The same problem with all trained arrays in the vector `theta`; it compiles in two thirds of the time."""

    theta: Float[Array, " P"] = trained("all")
    fixed: PosteriorProblem = constant()
    shapes: TreeSpace = eqx.field(static=True, default_factory=lambda: TreeSpace(None, ()))

    @classmethod
    def of(cls, problem: PosteriorProblem) -> FlatProblem:
        """The flat version of this problem."""
        params, fixed = split(problem)
        leaves, structure = jax.tree.flatten(params)
        theta = jnp.concatenate([leaf.reshape(-1) for leaf in leaves])
        return cls(theta, fixed, TreeSpace(structure, tuple(leaf.shape for leaf in leaves)))

    @property
    def problem(self) -> PosteriorProblem:
        """The problem with its trained arrays."""
        return eqx.combine(self.shapes(self.theta), self.fixed)

    @property
    def has_batches(self) -> bool:
        return self.fixed.has_batches

    @property
    def trained_frame(self) -> TrainedFrame | None:
        return self.problem.trained_frame

    def check(self) -> None:
        self.problem.check()

    def first_values(self, key: PRNGKeyArray, count: int) -> tuple[Float[Array, "J D"], Float[Array, " J"]]:
        """Draws of q, and log p(x, z) at these draws on all data."""
        return self.problem.first_values(key, count)

    def draw_outer(self, key: PRNGKeyArray, count: int) -> Outer:
        return self.problem.draw_outer(key, count)

    def on_batch(
        self, key: PRNGKeyArray, t: Float[Array, ""] | None = None, nu: Picked | None = None
    ) -> tuple[SemiImplicit, LogProbEach]:
        return self.problem.on_batch(key, t, nu)
