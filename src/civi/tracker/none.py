"""No tracking: nested Monte Carlo. The denominator is this step's fresh mean, so every weight k is 1."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Int

from civi.estimate import LogRatios
from civi.family import SemiImplicit
from civi.tracker.base import Auxiliary, Start, Tracked


@dataclass(frozen=True)
class NoTracker:
    """y_t = g(theta_t), estimated afresh."""

    def init(self, start: Start) -> tuple[()]:
        return ()

    def observe(
        self, state: tuple[()], family: SemiImplicit, ratios: LogRatios, index_S: Int[Array, " S"]
    ) -> tuple[Tracked, tuple[()]]:
        return Tracked(ratios.fresh_J, jnp.asarray(ratios.kept, float)), ()

    def refresh(self, state: tuple[()], auxiliary: Auxiliary) -> tuple[()]:
        return ()
