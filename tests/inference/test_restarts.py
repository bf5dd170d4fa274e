"""The test for whether a run is still improving."""

import numpy as np
import pytest

from civi.inference.restarts import improved

STEPS = 1500


def run(fall, noise=0.05, seed=0):
    """The neg_elbo of one run that falls by `fall` in every third of its steps."""
    steady = -3 * fall * np.arange(STEPS) / STEPS
    return steady + noise * np.random.default_rng(seed).normal(size=STEPS)


def test_a_falling_run_gains_and_a_level_one_seldom_does():
    """A run that does not improve has a difference above one standard error with probability 0.16."""
    assert improved(run(0.05)[:, None], 0.005)
    assert sum(improved(run(0.0, seed=seed)[:, None], 0.005) for seed in range(40)) <= 40 * 0.16 + 6
    assert not improved(run(-0.05)[:, None], 0.005)


@pytest.mark.parametrize(("least", "expected"), [(0.01, True), (0.1, False)])
def test_a_gain_counts_from_the_least_that_is_asked(least, expected):
    assert improved(run(0.05)[:, None], least) is expected


def test_one_run_that_gains_is_enough_and_one_that_ended_does_not_count():
    assert improved(np.stack([run(0.0), run(0.05)], axis=1), 0.005)
    assert not improved(np.stack([run(0.0), np.full(STEPS, np.nan)], axis=1), 0.005)
    assert improved(np.stack([run(0.05), np.full(STEPS, np.nan)], axis=1), 0.005)
