"""Bank: track the inner mean as a function of z by keeping the mixing outputs of the last steps.

    y(z) = mean of q(z | eps) over the mixing outputs of this step and of the last `steps` steps

The estimate is valid for every z, so every step can use fresh outer samples. Past mixing outputs carry no gradient,
because only numerators are differentiated. A step therefore costs one pass through the network, plus one matrix product
for the additional pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from civi.errors import require
from civi.estimate import LogRatios, log_sum_past
from civi.parallel.mesh import shard
from civi.settings import check_settings, self_checking
from civi.tracker.base import Auxiliary, Tracked


class BankState(NamedTuple):
    """Mixing outputs of the last steps, and how many of each are in use (0: not filled, or from another batch)."""

    mixed_BK: Float[Array, "B *J K P"]
    kept_B: Int[Array, " B"]
    slot: Int[Array, ""]


@self_checking
@dataclass(frozen=True)
class Bank:
    """The denominators average over (steps + 1) K2 mixing outputs."""

    steps: Annotated[int, "Number of past steps whose mixing outputs are kept."] = 8

    def __post_init__(self) -> None:
        check_settings(self, "tracker")
        require(self.steps >= 1, f"tracker.steps must be at least 1, not {self.steps}")

    def init(self, look: Any, inner: int) -> BankState:
        require(isinstance(look, LogRatios), "tracker=bank needs a problem with mixing outputs: use another tracker")
        *lead, _, outputs = look.mixed_K.shape
        empty = jnp.zeros((self.steps, *lead, inner, outputs), look.mixed_K.dtype)
        return BankState(empty, jnp.zeros(self.steps, int), jnp.asarray(0))

    def observe(self, state: BankState, look: LogRatios, index_S: Int[Array, " S"]) -> tuple[Tracked, BankState]:
        *lead, inner, outputs = state.mixed_BK.shape[1:]
        whole = not lead or len(index_S) % lead[0] == 0
        require(whole, "tracker=bank keeps outputs per datum of a batch, so it cannot be sketched: use tracker=ring")
        past_BK = jnp.moveaxis(state.mixed_BK, 0, -3).reshape(*lead, -1, outputs)
        past_BK = past_BK if lead else shard(past_BK, "inner")
        counted = (jnp.arange(inner) < state.kept_B[:, None]).reshape(-1)
        past_S = log_sum_past(past_BK, counted, look) - look.log_p_J
        now_S = look.fresh_J + jnp.log(look.kept)
        effective = jnp.asarray(look.kept + state.kept_B.sum(), float)
        pushed = BankState(
            jax.lax.dynamic_update_index_in_dim(state.mixed_BK, look.mixed_K, state.slot, 0),
            jax.lax.dynamic_update_index_in_dim(state.kept_B, look.kept, state.slot, 0),
            (state.slot + 1) % self.steps,
        )
        return Tracked(jnp.logaddexp(now_S, past_S) - jnp.log(effective), effective), pushed

    def refresh(self, state: BankState, auxiliary: Auxiliary) -> BankState:
        """Mixing outputs of an amortised family belong to their batch, so a new batch empties the bank."""
        per_datum = state.mixed_BK.ndim == 4
        return state._replace(kept_B=jnp.where(auxiliary.new_J.any(), 0, state.kept_B)) if per_datum else state
