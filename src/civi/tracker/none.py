"""No tracking (nested Monte Carlo): the denominator is this step's fresh mean, so every weight k is 1."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Int

from civi.estimate import Look
from civi.tracker.base import Auxiliary, Tracked


@dataclass(frozen=True)
class NoTracker:
    """y_t = g(theta_t), estimated anew in every step."""

    def init(self, look: Look, inner: int) -> tuple[()]:
        return ()

    def observe(self, state: tuple[()], look: Look, index_S: Int[Array, " S"]) -> tuple[Tracked, tuple[()]]:
        return Tracked(look.fresh_J, jnp.asarray(look.kept, float)), ()

    def refresh(self, state: tuple[()], auxiliary: Auxiliary) -> tuple[()]:
        return ()
