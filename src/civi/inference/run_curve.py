"""The learning curve of one run of a fit in few numbers, and the seconds of the phases of a fit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

POINTS = 120


class RunCurve(NamedTuple):
    """The learning curve of one run: means over blocks of consecutive steps.

    Attributes:
        step: the last step of each block.
        seconds: seconds since the training began, at the end of each block.
        neg_elbo: mean of neg_elbo over the steps of each block.
        sd: standard deviation of neg_elbo over the steps of each block.
        stalled: the step after which the ELBO had stopped improving and the learning rate began to decay; 0: none.
        chosen: whether this is the run that was kept.
    """

    step: np.ndarray
    seconds: np.ndarray
    neg_elbo: np.ndarray
    sd: np.ndarray
    stalled: int = 0
    chosen: bool = True


def curve_of(history: Mapping[str, np.ndarray], stalled: int = 0, *, chosen: bool = True) -> RunCurve:
    """The learning curve of a training history.

    Args:
        history: columns step, seconds and neg_elbo.
        stalled: see `RunCurve`.
        chosen: see `RunCurve`.
    """
    count = len(history["step"])
    blocks = np.array_split(np.arange(count), min(POINTS, count)) if count else []
    values = [np.asarray(history["neg_elbo"])[block] for block in blocks]
    last = [block[-1] for block in blocks]
    with np.errstate(invalid="ignore", over="ignore"):
        mean, sd = np.array([part.mean() for part in values]), np.array([part.std() for part in values])
    return RunCurve(
        np.asarray(history["step"])[last] if last else np.zeros(0),
        np.asarray(history["seconds"])[last] if last else np.zeros(0),
        mean.astype(float),
        sd.astype(float),
        stalled,
        chosen,
    )


class Clock:
    """Seconds of the phases of a fit, in order."""

    def __init__(self) -> None:
        self.begun = self._last = time.perf_counter()
        self.phases: dict[str, float] = {}

    def end(self, phase: str) -> None:
        """The phase of this name has ended; the next one begins."""
        now = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self.begun
