"""The peak speed of this machine: the rate of matrix products in the shapes that a step uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from civi.bench.timing import Program, Timed


class Product(NamedTuple):
    """The shape of a matrix product: (rows, inner) times (inner, columns)."""

    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> float:
        """Number of multiplications and additions."""
        return 2.0 * self.rows * self.inner * self.columns


def products(shapes: Sequence[Product], repeats: int) -> Program:
    """A program that computes these products, and the two products of each one's gradient, `repeats` times."""
    keys = jax.random.split(jax.random.key(0), 2)
    pairs = [
        (jax.random.normal(keys[0], (s.rows, s.inner)), jax.random.normal(keys[1], (s.inner, s.columns)))
        for s in shapes
    ]

    @jax.jit
    def run(pairs: Any) -> Any:
        def once(_: Any, carry: Any) -> Any:
            done = []
            for (a, b), before in zip(pairs, carry, strict=True):
                product = a @ (b + 1e-30 * before[1])
                done.append((product @ b.T, a.T @ product))
            return done

        return jax.lax.fori_loop(0, repeats, once, list(pairs))

    return lambda: run(pairs)


def product_rate(shapes: Sequence[Product], seconds: Timed) -> float:
    """Operations per second of `products`, given the seconds of one repeat."""
    return 3 * sum(shape.flops for shape in shapes) / seconds.median
