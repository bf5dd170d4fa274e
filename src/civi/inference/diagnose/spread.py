"""Whether independent runs found the same posterior."""

from __future__ import annotations

import numpy as np

from civi.inference.load_arviz import import_arviz


def r_hat(draws: np.ndarray) -> float | None:
    """The largest R-hat over all parameters of draws (run, draw, dim); None for a single run.

    Of ranks, and of ranks of the distance from the median (Vehtari et al. 2021): location and scale both count. Two
    runs whose means are d standard deviations apart have about sqrt(1 + d^2 / 3).
    """
    if len(draws) < 2:
        return None
    if not np.isfinite(draws).all():
        return float("inf")
    arviz = import_arviz()
    return max(float(arviz.rhat(draws[:, :, i].astype(np.float64), method="rank")) for i in range(draws.shape[2]))
