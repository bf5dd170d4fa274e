"""Timing for the benchmarks: a single call, or several programs that alternate.

Alternating programs are affected equally by other work on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

Program = Callable[[], Any]
Advance = Callable[[str], None]


class Clocked(NamedTuple):
    """The result of a call, its wall time and its CPU time."""

    result: Any
    seconds: float
    cpu_seconds: float


def clocked(call: Program) -> Clocked:
    """Call once, and wait until all arrays of the result have been computed."""
    begun, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call())
    return Clocked(result, time.perf_counter() - begun, time.process_time() - cpu)


class Timed(NamedTuple):
    """Seconds per call: median and quartiles over rounds."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> Timed:
        """All values times a factor, for example to get seconds per step."""
        return Timed(*(value * factor for value in self))


def in_turns(programs: Mapping[str, Program], rounds: int, advance: Advance, what: str = "") -> dict[str, Timed]:
    """Time several programs by alternating between them, after one call each to warm up.

    Args:
        programs: the programs by name.
        rounds: how often each program is timed.
        advance: called with `what` and the name of the program after each call.
        what: prefix of the progress messages.
    """
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for name, program in programs.items():
        jax.block_until_ready(program())
        advance(f"{what}{name}")
    for _ in range(rounds):
        for name, program in programs.items():
            seconds[name].append(clocked(program).seconds)
            advance(f"{what}{name}")
    return {name: Timed(*np.quantile(values, (0.5, 0.25, 0.75)).tolist()) for name, values in seconds.items()}
