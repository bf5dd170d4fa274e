"""Mean, standard deviation and highest-density interval of every entry of every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

MASS = 0.94


class Row(NamedTuple):
    """Summary of one scalar: its name, such as theta[0, 3], moments and the ends of its interval."""

    name: str
    mean: float
    sd: float
    low: float
    high: float


def summary(draws: Mapping[str, np.ndarray]) -> list[Row]:
    """One row per scalar, in the order of the parameters.

    Args:
        draws: draws by name, of shape (chain, draw, ...).
    """
    rows = []
    for name, value in draws.items():
        array = np.asarray(value, np.float64)
        pooled = array.reshape(-1, *array.shape[2:])
        for index in np.ndindex(pooled.shape[1:]):
            one = pooled[(slice(None), *index)]
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            rows.append(Row(label, float(one.mean()), float(one.std(ddof=1)), *highest_density_interval(one)))
    return rows


def highest_density_interval(draws: np.ndarray, mass: float = MASS) -> tuple[float, float]:
    """The shortest interval between two draws that spans a fraction `mass` of all draws.

    Args:
        draws: draws of a scalar.
        mass: fraction of the draws.
    """
    ordered = np.sort(draws)
    span = int(mass * len(ordered))
    start = int(np.argmin(ordered[span:] - ordered[: len(ordered) - span]))
    return float(ordered[start]), float(ordered[start + span])
