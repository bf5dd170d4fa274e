"""Sums over the rows of data, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array, Float


def sum_over_rows(
    part: Callable[[Float[Array, "B D"], Float[Array, " B"]], Array],
    x: Float[Array, "N D"],
    y: Float[Array, " N"],
    block: int,
) -> Array:
    """The sum of `part` over blocks of rows, so that the memory for many z does not grow with the number of rows.

    Args:
        part: the sum over some rows (x, y).
        x: features.
        y: targets.
        block: number of rows per block; data with fewer than two blocks are one block.
    """
    blocks = len(y) // block
    if blocks < 2:
        return part(x, y)

    @jax.checkpoint
    def add(total: Array, rows: tuple[Array, Array]) -> tuple[Array, None]:
        return total + part(*rows), None

    whole = (x[: blocks * block].reshape(blocks, block, -1), y[: blocks * block].reshape(blocks, block))
    return jax.lax.scan(add, part(x[blocks * block :], y[blocks * block :]), whole)[0]
