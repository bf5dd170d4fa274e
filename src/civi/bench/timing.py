"""All clocks of the benchmarks: one call by itself, or several programs in turns.

In turns, what else the machine does falls on all of them alike.
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
    """What a call returned, its seconds by the clock, and those of the processor."""

    result: Any
    seconds: float
    cpu_seconds: float


def clocked(call: Program) -> Clocked:
    """Call once, and wait until all arrays of the result are there."""
    begun, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call())
    return Clocked(result, time.perf_counter() - begun, time.process_time() - cpu)


class Timed(NamedTuple):
    """Seconds of one call: the median over rounds and the quartiles around it."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> Timed:
        """Per step, where a call is many steps."""
        return Timed(*(value * factor for value in self))


def in_turns(programs: Mapping[str, Program], rounds: int, advance: Advance, what: str = "") -> dict[str, Timed]:
    """Call every program once to warm up, then once in each round; `advance` is told `what` and the program's name."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for name, program in programs.items():
        jax.block_until_ready(program())
        advance(f"{what}{name}")
    for _ in range(rounds):
        for name, program in programs.items():
            seconds[name].append(clocked(program).seconds)
            advance(f"{what}{name}")
    return {name: Timed(*np.quantile(values, (0.5, 0.25, 0.75)).tolist()) for name, values in seconds.items()}
