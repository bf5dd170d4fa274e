"""The pool of outer samples: n noise pairs mu_j = (u_j, eps_j), used a chunk at a time.

The pool is virtual: its i-th block of noise is a function of the key and of i, so a pool of any size costs one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.family import Outer

DRAWS = ("each", "uniform")


class PoolState(NamedTuple):
    """The chunk in use and where it stands in the pool."""

    outer: Outer
    next_block: Int[Array, ""]
    steps_kept: Int[Array, ""]


@dataclass(frozen=True)
class Pool:
    """A pool of `size` samples (n of the paper; 0: endless), in chunks of `chunk` (0: as many as samples.outer).

    Every `switch_every` steps the fraction `renew` of the chunk is replaced by the pool's next samples.
    draw = each: every sample of the chunk once. draw = uniform: nu_1 .. nu_K1 uniform over the chunk, with counts
    (Eq. Logscale).
    """

    size: int = 0
    chunk: int = 0
    switch_every: int = 1
    renew: float = 1.0
    draw: str = "each"

    def __post_init__(self) -> None:
        require(self.size >= 0, f"pool.size must be at least 0 (0: endless), not {self.size}")
        require(self.chunk >= 0, f"pool.chunk must be at least 0 (0: as samples.outer), not {self.chunk}")
        require(self.switch_every >= 1, f"pool.switch_every must be at least 1, not {self.switch_every}")
        require(0 < self.renew <= 1, f"pool.renew must be in (0, 1], not {self.renew}")
        require(self.draw in DRAWS, f"pool.draw must be one of {', '.join(DRAWS)}, not '{self.draw}'")
        fits = not self.size or self.chunk <= self.size
        require(fits, f"pool.chunk ({self.chunk}) is larger than the pool ({self.size}): make the chunk smaller")
        whole = not self.size or not self.chunk or (self.size % self.block == 0 and self.chunk % self.block == 0)
        message = f"with a finite pool, pool.size ({self.size}) and pool.chunk must be multiples of the {self.block}"
        require(whole, f"{message} samples that are replaced at a time (pool.renew of the chunk)")

    @property
    def block(self) -> int:
        """How many samples are replaced at a time."""
        return max(1, round(self.chunk * self.renew))

    def init(self, draw_outer: Callable[[PRNGKeyArray, int], Outer], key: PRNGKeyArray) -> PoolState:
        """The pool's first chunk."""
        blocks = -(-self.chunk // self.block)
        drawn = [self._draw_block(draw_outer, key, jnp.asarray(i)) for i in range(blocks)]
        outer = jax.tree.map(lambda *parts: jnp.concatenate(parts)[: self.chunk], *drawn)
        return PoolState(outer, jnp.asarray(blocks), jnp.asarray(0))

    def shares(self, count: Int[Array, ""], most: int, key: PRNGKeyArray) -> Float[Array, " J"]:
        """count_j / K1: how often nu draws each sample of the chunk, of `count` (at most `most`) draws."""
        if self.draw == "each":
            return jnp.full(self.chunk, 1.0 / self.chunk)
        nu = jax.random.randint(key, (most,), 0, self.chunk)
        drawn = (jnp.arange(most) < count).astype(float)
        return jnp.zeros(self.chunk).at[nu].add(drawn) / count

    def advance(
        self, state: PoolState, draw_outer: Callable[[PRNGKeyArray, int], Outer], key: PRNGKeyArray
    ) -> tuple[PoolState, Bool[Array, " J"]]:
        """The chunk for the next step, and which of its samples are new."""
        steps_kept = state.steps_kept + 1
        switch = steps_kept >= self.switch_every
        fresh = self._draw_block(draw_outer, key, state.next_block)
        place = PoolState(state.outer, state.next_block + switch, jnp.where(switch, 0, steps_kept))
        if self.block == self.chunk:
            outer = jax.tree.map(lambda old, new: jnp.where(switch, new, old), state.outer, fresh)
            return place._replace(outer=outer), jnp.full(self.chunk, switch)
        first = (state.next_block * self.block) % self.chunk
        position_B = (first + jnp.arange(self.block)) % self.chunk
        new_J = jnp.zeros(self.chunk, bool).at[position_B].set(switch)

        def replaced(old: Array, new: Array) -> Array:
            return old.at[position_B].set(jnp.where(switch, new, old[position_B]))

        outer = jax.tree.map(replaced, state.outer, fresh)
        return place._replace(outer=outer), new_J

    def _draw_block(
        self, draw_outer: Callable[[PRNGKeyArray, int], Outer], key: PRNGKeyArray, index: Int[Array, ""]
    ) -> Outer:
        if self.size:
            index = index % max(1, self.size // self.block)
        return draw_outer(jax.random.fold_in(key, index), self.block)
