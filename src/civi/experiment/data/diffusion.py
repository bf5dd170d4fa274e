"""The simulated path and its observations that KSIVI and later comparisons condition on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from civi.experiment.data.files import locate


class DiffusionData(NamedTuple):
    """A path at its times, and the observations at some of them.

    Attributes:
        times: times of the path, (100,).
        path: the simulated path, (100,).
        observed_times: times of the observations, (20,).
        observations: the observations, (20,).
    """

    times: np.ndarray
    path: np.ndarray
    observed_times: np.ndarray
    observations: np.ndarray


def diffusion_path() -> DiffusionData:
    """100 steps of 0.01 with drift 10 u (1 - u^2), observed at every fifth with noise of standard deviation 0.1."""
    times, path, observed = np.genfromtxt(locate("diffusion", "path.csv"), delimiter=",", skip_header=1).T
    there = ~np.isnan(observed)
    return DiffusionData(times, path, times[there], observed[there])
