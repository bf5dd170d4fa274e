"""R-hat between independent runs: whether they found the same posterior."""

from __future__ import annotations

import numpy as np

from civi.inference.load_arviz import import_arviz


def r_hat(draws: np.ndarray) -> float | None:
    """The largest rank-normalised R-hat over all parameters (Vehtari et al. 2021).

    It is the larger of the R-hat of the ranks and that of the ranks of the distance from the median, so it detects
    differences in location and in scale. For two runs whose means are d standard deviations apart it is about
    sqrt(1 + d^2 / 3).

    Args:
        draws: draws of all runs, of shape (run, draw, dim).

    Returns:
        The largest R-hat; infinity if a draw is not finite, None for a single run.
    """
    if len(draws) < 2:
        return None
    if not np.isfinite(draws).all():
        return float("inf")
    arviz = import_arviz()
    return max(float(arviz.rhat(draws[:, :, i].astype(np.float64), method="rank")) for i in range(draws.shape[2]))
