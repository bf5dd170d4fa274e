"""The mode of a posterior whose rows are read from disk: Newton's method, with one pass over the table per step."""

from __future__ import annotations

import numpy as np

from civi.errors import TargetError
from civi.problem.target import Frame, Framed
from civi.problem.target.program import on_device
from civi.problem.target.streamed import Derivatives, StreamedRegression

PASSES = 12
CLOSE = 1e-3


def in_full_passes(target: StreamedRegression, framed: Framed) -> Framed:
    """The target in the frame of its mode on all rows.

    From the mode of a sample of n rows, the first step leaves an error of order 1/n, and the second one of order 1/n^2.
    A step that lowers log p is halved. The passes end when a step would gain less than CLOSE nats.

    Args:
        target: the target.
        framed: the target in the frame of the mode of its sample.
    """
    z, best, step = np.asarray(framed.frame.location, np.float32), None, None
    for _ in range(PASSES):
        found = target.derivatives(z)
        if best is not None and step is not None and not found.log_p > best[1].log_p - CLOSE:
            step = 0.5 * step
        else:
            best, step = (z, found), np.linalg.solve(-found.curvature, found.slope)
            if 0.5 * found.slope @ step < CLOSE:
                return _framed(target, *best)
        z = (best[0] + step).astype(np.float32)
    raise TargetError(f"the pilot found no maximum of the log density in {PASSES} passes over the table")


def _framed(target: StreamedRegression, z: np.ndarray, found: Derivatives) -> Framed:
    """log p is relative to that at the location, so it is 0 there."""
    variance = np.linalg.inv(-found.curvature)
    frame = Frame(on_device(z), on_device(np.linalg.cholesky((variance + variance.T) / 2)))
    return Framed(target.moved(z, found), frame, on_device(np.zeros(())), on_device(found.slope))
