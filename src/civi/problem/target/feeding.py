"""Problems whose data are read while they are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jax.sharding import Mesh

from civi.problem.target.framed import Framed
from civi.problem.target.streamed import StreamedRegression
from civi.problem.target.streamed_model import StreamedModel
from civi.tables.feed import EMPTY, Window

Feeding = Callable[[Any, int], tuple[Any, int]]
UNLIMITED = 2**31 - 1


def unchanged(problem: Any, done: int) -> tuple[Any, int]:
    """The feed of a problem that has all its data."""
    return problem, UNLIMITED


@contextmanager
def feeding(problem: Any, seed: int, batch: int | None, mesh: Mesh | None = None) -> Iterator[Feeding]:
    """A function that maps a problem and the number of steps done to the problem with the data of the next steps.

    It also returns the number of these steps.

    Args:
        problem: the problem.
        seed: seed of the order in which the rows are read.
        batch: number of rows per step.
        mesh: the device mesh; None for a single device.
    """
    target = streamed_part(problem)
    if target is None or batch is None:
        yield unchanged
        return
    with target.feed(seed, batch, mesh) as feed:

        def next_window(fixed: Any, done: int) -> tuple[Any, int]:
            window, steps = feed.at(done)
            return with_window(fixed, window), steps

        yield next_window


def with_window(problem: Any, window: Window = EMPTY) -> Any:
    """The problem with these rows in memory; unchanged if it has all its data."""
    target = streamed_part(problem)
    if target is None:
        return problem
    filled = replace(target, window=window)
    framed = isinstance(problem.target, Framed)
    return replace(problem, target=replace(problem.target, target=filled) if framed else filled)


def streamed_part(problem: Any) -> StreamedRegression | StreamedModel | None:
    """The streamed target of the problem, without its frame; None if the problem has all its data."""
    target = getattr(problem, "target", None)
    target = target.target if isinstance(target, Framed) else target
    return target if isinstance(target, StreamedRegression | StreamedModel) else None


def log_offset(target: Any) -> float:
    """What must be added to log densities of this target, in double precision; 0 unless it is relative to an origin."""
    return getattr(target.target if isinstance(target, Framed) else target, "offset", 0.0)
