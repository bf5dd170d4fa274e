"""Ring: smooth with this step's own estimate and use the result at once, without a second oracle call; k <= 1/beta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from civi.errors import require
from civi.estimate import Look
from civi.settings import check_settings, self_checking
from civi.tracker.base import Auxiliary, Tracked
from civi.tracker.smoothing import Average, begin, smooth


class RingState(NamedTuple):
    """The moving averages, and which of them belong to outer samples that no look has observed yet."""

    average: Average
    unseen_J: Bool[Array, " J"]


@self_checking
@dataclass(frozen=True)
class Ring:
    """y_t = (1 - beta) y_{t-1} + beta g(theta_t), used in the same step; meant for pool.renew < 1."""

    beta: Annotated[float, "Weight of this step's estimate in the moving average."] = 0.3

    def __post_init__(self) -> None:
        check_settings(self, "tracker")
        require(0 < self.beta <= 1, f"tracker.beta must be in (0, 1], not {self.beta}")

    def init(self, look: Look, inner: int) -> RingState:
        return RingState(begin(look), jnp.ones(len(look.fresh_J), bool))

    def observe(self, state: RingState, look: Look, index_S: Int[Array, " S"]) -> tuple[Tracked, RingState]:
        of_S = jax.tree.map(lambda values_J: values_J[index_S], state.average)
        now_S = smooth(of_S, look, jnp.asarray(self.beta), state.unseen_J[index_S])
        average = jax.tree.map(lambda values_J, new_S: values_J.at[index_S].set(new_S), state.average, now_S)
        tracked = Tracked(now_S.y_J, 1 / now_S.inverse_size_J)
        return tracked, RingState(average, state.unseen_J.at[index_S].set(False))

    def refresh(self, state: RingState, auxiliary: Auxiliary) -> RingState:
        return RingState(state.average, state.unseen_J | auxiliary.new_J)
