"""The pool of outer samples: n noise pairs mu_j = (u_j, eps_j), used one chunk at a time.

The pool is virtual: its i-th block of noise is computed from the key and i, so a pool of any size needs only the memory
of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from civi.errors import require
from civi.settings import check_settings, self_checking
from civi.update import Samples

DrawOuter = Callable[[PRNGKeyArray, int], Any]


class PoolState(NamedTuple):
    """The chunk in use, the index of the pool's next block, and the number of steps since the last replacement."""

    outer: Any
    next_block: Int[Array, ""]
    steps_kept: Int[Array, ""]


@self_checking
@dataclass(frozen=True)
class Pool:
    """A pool of outer samples. One chunk of it is in use; all or part of the chunk is replaced every few steps."""

    size: Annotated[int | None, "Number of samples in the pool, n in the paper; none: infinitely many."] = None
    chunk: Annotated[int | None, "Number of samples in use at a time; none: samples.outer."] = None
    switch_every: Annotated[int | None, "Steps between replacements of samples in the chunk; none: never replaced."] = 1
    renew: Annotated[float, "Fraction of the chunk that each replacement exchanges for the pool's next samples."] = 1.0
    draw: Annotated[
        Literal["each", "uniform"],
        "each: use every sample of the chunk once; uniform: draw K1 with replacement (Eq. Logscale).",
    ] = "each"

    def __post_init__(self) -> None:
        check_settings(self, "pool")
        for name in ("size", "chunk", "switch_every"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"pool.{name} must be at least 1, or none, not {value}")
        require(0 < self.renew <= 1, f"pool.renew must be in (0, 1], not {self.renew}")
        if self.size is None or self.chunk is None:
            return
        fits = self.chunk <= self.size
        require(fits, f"pool.chunk ({self.chunk}) is larger than the pool ({self.size}): make the chunk smaller")
        whole = self.size % self.block == 0 and self.chunk % self.block == 0
        message = f"with a finite pool, pool.size ({self.size}) and pool.chunk must be multiples of the {self.block}"
        require(whole, f"{message} samples that are replaced at a time (pool.renew of the chunk)")

    def filled(self, outer: int) -> Pool:
        """The pool with a chunk of `outer` samples, unless the chunk size is already set."""
        return self if self.chunk else replace(self, chunk=outer)

    def check_batches(self, has_batches: bool) -> None:
        """Reject chunks that are replaced in parts where every chunk has its own mini-batch."""
        kept = not has_batches or self.renew == 1
        require(kept, "problem.batch keeps a batch of data with its chunk of outer samples: set pool.renew to 1")

    def check_samples(self, samples: Samples) -> None:
        """Raise SettingError if the sample sizes do not fit this pool."""
        if self.draw == "each":
            same = self.chunk in (None, samples.outer)
            require(same, f"pool.draw = each uses the whole chunk: set samples.outer to pool.chunk ({self.chunk})")
            require(not samples.growth, "samples.growth needs pool.draw = uniform, so that K1 can grow")
        self.filled(samples.outer)

    @property
    def chunk_size(self) -> int:
        """Number of samples in a chunk; raises ValueError if it is not filled in."""
        if self.chunk is None:
            raise ValueError("the pool has no chunk size yet: call filled(outer) first")
        return self.chunk

    @property
    def block(self) -> int:
        """Number of samples that are replaced at a time."""
        return max(1, round(self.chunk_size * self.renew))

    def init(self, draw_outer: DrawOuter, key: PRNGKeyArray) -> PoolState:
        """The pool's first chunk."""
        blocks = -(-self.chunk_size // self.block)
        drawn = [self._draw_block(draw_outer, key, jnp.asarray(i)) for i in range(blocks)]
        outer = jax.tree.map(lambda *parts: jnp.concatenate(parts)[: self.chunk_size], *drawn)
        return PoolState(outer, jnp.asarray(blocks), jnp.asarray(0))

    def shares(self, count: Int[Array, ""], most: int, key: PRNGKeyArray) -> Float[Array, " J"]:
        """count_j / K1: the share of nu's draws that fall on each sample of the chunk.

        Args:
            count: number of draws, K1.
            most: the largest K1 of the run, which fixes the array size.
            key: draws nu.
        """
        if self.draw == "each":
            return jnp.full(self.chunk_size, 1.0 / self.chunk_size)
        nu = jax.random.randint(key, (most,), 0, self.chunk_size)
        drawn = (jnp.arange(most) < count).astype(float)
        return jnp.zeros(self.chunk_size).at[nu].add(drawn) / count

    def advance(
        self, state: PoolState, draw_outer: DrawOuter, key: PRNGKeyArray
    ) -> tuple[PoolState, Bool[Array, " J"]]:
        """The state with the next step's chunk, and which of the chunk's samples are new."""
        steps_kept = state.steps_kept + 1
        switch = jnp.asarray(False) if self.switch_every is None else steps_kept >= self.switch_every
        fresh = self._draw_block(draw_outer, key, state.next_block)
        place = PoolState(state.outer, state.next_block + switch, jnp.where(switch, 0, steps_kept))
        if self.block == self.chunk_size:
            outer = jax.tree.map(lambda old, new: jnp.where(switch, new, old), state.outer, fresh)
            return place._replace(outer=outer), jnp.full(self.chunk_size, switch)
        first = (state.next_block * self.block) % self.chunk_size
        position_B = (first + jnp.arange(self.block)) % self.chunk_size
        new_J = jnp.zeros(self.chunk_size, bool).at[position_B].set(switch)

        def replaced(old: Array, new: Array) -> Array:
            return old.at[position_B].set(jnp.where(switch, new, old[position_B]))

        outer = jax.tree.map(replaced, state.outer, fresh)
        return place._replace(outer=outer), new_J

    def _draw_block(self, draw_outer: DrawOuter, key: PRNGKeyArray, index: Int[Array, ""]) -> Any:
        if self.size:
            index = index % max(1, self.size // self.block)
        return draw_outer(jax.random.fold_in(key, index), self.block)
