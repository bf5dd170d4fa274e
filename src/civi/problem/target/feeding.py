"""Problems whose data are read while they are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
from jax.sharding import Mesh

from civi.problem.target.frame import unframed
from civi.problem.target.streamed import StreamedRegression
from civi.tables.feed import Window


@contextmanager
def feeding(
    problem: Any, seed: int, batch: int | None, mesh: Mesh | None = None
) -> Iterator[Callable[[Any, int], tuple[Any, int]] | None]:
    """What `civi.solver.loop.train` takes as `feed`; None for a problem that has all its data.

    Args:
        problem: the problem.
        seed: seed of the order in which the rows are read.
        batch: number of rows per step.
        mesh: the device mesh; None for a single device.
    """
    target = unframed(getattr(problem, "target", None))
    if not isinstance(target, StreamedRegression) or batch is None:
        yield None
        return
    with target.feed(seed, batch, mesh) as feed:

        def next_window(fixed: Any, done: int) -> tuple[Any, int]:
            window, steps = feed.at(done)
            return with_window(fixed, window), steps

        yield next_window


def with_window(problem: Any, window: Window | None) -> Any:
    """The problem with these rows in memory; unchanged if it has all its data."""
    if not isinstance(unframed(getattr(problem, "target", None)), StreamedRegression):
        return problem
    return eqx.tree_at(lambda one: unframed(one.target).window, problem, window, is_leaf=lambda leaf: leaf is None)


def log_offset(target: Any) -> float:
    """What must be added to log densities of this target, in double precision; 0 unless it is relative to an origin."""
    return getattr(unframed(target), "offset", 0.0)
